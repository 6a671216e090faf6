// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// Times strategies and the memory yardstick in turn, over any communicator of the host.
///
///     std::vector<bench::row> rows = bench::measure(comm, chosen);   // all ranks together; rank 0 gets the rows
///
/// A sample is as many all-reduces, back to back, as take about 200 us (produced: one, between a producer that is not timed and a consumer
/// that is), from a barrier to the last rank's end. Strategies and yardstick alternate, sample by sample; each is labelled by the round
/// trip between two cores before and after it.
///
/// The limit: the yardstick moves 2 bytes of memory traffic for a byte and rank, at the speed of memory (or of the cache that the buffers
/// fit in). A strategy moves more, which its program says: a copy 2, an addition 3, a join of k ranks k + 2. So its limit is the
/// yardstick's time, times its bytes, over those of the yardstick.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "examples/bench/options.hpp"
#include "examples/bench/statistics.hpp"
#include "examples/bench/yardstick.hpp"
#include "examples/fashion/strategies.hpp"
#include "gradsync/collective/run.hpp"

namespace bench {

/// One line of the table: the samples of one label.
struct row {
  std::size_t bytes;
  std::string strategy, algorithm;  ///< asked for, and what that runs for so many bytes
  bool produced;
  placement where;
  std::size_t count;  ///< of samples
  double seconds, yardstick, limit;
  std::int64_t wrong;  ///< elements, over all ranks
};

/// Bytes of memory traffic of one rank, for a byte of the buffer.
inline double traffic(const gradsync::program& p) {
  using kind = gradsync::operation::kind;
  if (p.fused || p.rounds() == 0) return 2;
  double chunks = 0;
  for (int k = 0; k < p.rounds(); ++k)
    for (auto left = p.round(k); !left.empty();) {
      const std::size_t together = gradsync::performed_at_once(left);
      const auto& op = left[0];
      const double streams = op.what == kind::send   ? 0
                             : op.what == kind::copy ? 2
                             : op.what == kind::add  ? 3
                                                     : static_cast<double>(together) + 2;
      chunks += streams * op.count;
      left = left.subspan(together);
    }
  return chunks / p.chunks;
}

template <class Communicator>
class bench_run {
 public:
  bench_run(Communicator& comm, const options& chosen)
      : comm_(comm), chosen_(chosen), channel_(comm.open(1)), memory_(comm.allocate(chosen.most_bytes)),
        at_(reinterpret_cast<float*>(memory_.data())), whole_{memory_.data(), 0, 0} {
    pin_to(comm.rank());
    if (comm.rank() == 0) probe_.emplace();
    for (const std::string& name : chosen.strategies) sums_.push_back(fashion::named_strategy(name, comm));
  }

  std::vector<row> measure() {
    std::vector<row> rows;
    for (std::size_t bytes = chosen_.least_bytes; bytes <= chosen_.most_bytes; bytes *= chosen_.factor)
      for (const bool produced : {false, true})
        if (produced ? chosen_.produced : chosen_.hot) measure(bytes, produced, rows);
    return rows;
  }

 private:
  static double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

  // One all-reduce: of strategy `which`, or the yardstick's, which comes before the first.
  void once(std::size_t which) {
    if (which == 0) {
      scale(at_, whole_.count, by_);
      return;
    }
    const gradsync::program& p = steps(which);
    const double weight = chosen_.mean || comm_.rank() == 0 ? 1 : 0;
    gradsync::cursor at{
        .place = channel_.post(p, {.buffer = {gradsync::dtype::float32, std::span(&whole_, 1)}, .scale = 1, .weight = weight, .call = 0})};
    const gradsync::deadline until = comm_.limit();
    gradsync::run(p, channel_, at, until);
    channel_.drain(p, at.place, until);
    if (comm_.size() == 1) keep(at_);
  }

  const gradsync::program& steps(std::size_t which) const { return sums_[which - 1].steps(whole_.count * sizeof(float)); }

  std::int64_t wrong(std::size_t which) {
    produce(at_, whole_.count, comm_.rank());
    once(which);
    std::int64_t differ = 0;
    for (std::size_t i = 0; i < whole_.count; ++i) {
      const float sum = static_cast<float>(produced_sum(i, comm_.size()));  // exact
      if (at_[i] != (chosen_.mean ? sum / static_cast<float>(comm_.size()) : sum)) ++differ;
    }
    return comm_.all_reduce(differ);
  }

  // Seconds of one, of `times` in a row, on the rank that is through last.
  double sample(std::size_t which, int times, bool produced) {
    produce(at_, whole_.count, comm_.rank());
    if (!produced) once(which);
    comm_.barrier();
    const double begin = now();
    for (int i = 0; i < times; ++i) once(which);
    if (produced) keep(consume(at_, whole_.count));
    if (which == 0) comm_.barrier();
    return comm_.all_reduce((now() - begin) / times, gradsync::reduce_op::max);
  }

  double probe() { return probe_ ? probe_->round_trip_ns() : 0; }

  void measure(std::size_t bytes, bool produced, std::vector<row>& rows) {
    whole_.count = bytes / sizeof(float);
    const std::size_t cells = sums_.size() + 1;
    std::vector<std::int64_t> wrongs(cells);
    std::vector<int> times(cells, 1);
    for (std::size_t which = 0; which < cells; ++which) {
      if (which > 0) wrongs[which] = wrong(which);
      sample(which, 1, produced);
      if (!produced) times[which] = static_cast<int>(std::clamp(200e-6 / sample(which, 3, false), 1.0, 500.0));
    }
    std::vector<samples> of(cells);
    double before = probe();
    for (int i = 0; i < chosen_.samples; ++i)
      for (std::size_t which = 0; which < cells; ++which) {
        const double seconds = sample(which, times[which], produced);
        const double after = probe();
        of[which].add(placement_between(before, after), seconds);
        before = after;
      }
    for (std::size_t which = 1; which < cells; ++which) {
      const double bound = comm_.all_reduce(traffic(steps(which))) / (2 * comm_.size());
      for (const placement where : labels) {
        const std::size_t count = std::min(of[0].at(where).size(), of[which].at(where).size());
        if (comm_.rank() != 0 || count == 0) continue;
        const double yardstick = of[0].median(where);
        rows.push_back({.bytes = bytes,
                        .strategy = chosen_.strategies[which - 1],
                        .algorithm = steps(which).name,
                        .produced = produced,
                        .where = where,
                        .count = count,
                        .seconds = of[which].median(where),
                        .yardstick = yardstick,
                        .limit = yardstick * bound,
                        .wrong = wrongs[which]});
      }
    }
  }

  Communicator& comm_;
  const options& chosen_;
  decltype(std::declval<Communicator&>().open(1)) channel_;
  gradsync::aligned_bytes memory_;
  float* at_;
  gradsync::extent whole_;
  volatile float by_ = 1;
  std::vector<gradsync::collective<Communicator>> sums_;
  std::optional<placement_probe> probe_;
};

template <class Communicator>
std::vector<row> measure(Communicator& comm, const options& chosen) {
  return bench_run<Communicator>(comm, chosen).measure();
}

/// By the processes that a launcher has started; nothing if this one was started by itself. Rows on rank 0.
struct measured {
  int rank = 0, size = 1;
  std::string transport;
  std::vector<row> rows;
};
std::optional<measured> measure_over_processes(const options& chosen);
std::optional<measured> measure_over_mpi(const options& chosen);  ///< mpi/mpi.cpp; nothing where it was built without: mpi/none.cpp

}  // namespace bench
