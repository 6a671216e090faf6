// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// Measures what messages and additions cost on a transport, so that `cost` and `simulate` speak of the machine at hand.
///
/// All ranks form a circle. In each of six rounds every rank hands a third of its buffer to its neighbour while it gets another third from
/// the one behind it; all ranks are busy at once, as in a real collective, so that shared memory, caches and CPUs show in the figures:
///   α  a round of six, 64 bytes a message
///   β  a byte of a message, 256 KiB each, α taken off
///   γ  a byte added: what the same six rounds take longer when the first three of them add (0 where a message is added as it is read)
/// A transport that has an all-reduce of its own is also timed in that, since `cost` cannot know it. The runs alternate (small, copies,
/// additions); the lower quartile of each counts, since what disturbs a run makes it longer. It goes on for 20 ms, at least once round: 20
/// to 30 ms in all for up to 8 ranks a CPU. All ranks must call it together, it blocks, and all get rank 0's figures, so that whatever they
/// decide by them they decide alike. Throws as `all_reduce` does.
///
/// A link is a straight line, memory is not: the same bytes go several times faster while they stay in a cache. The figures are those of
/// buffers of 768 KiB, and belong to this number of ranks on this machine. One rank has no link: all figures are 0.
///
///     const calibration here = calibrate(comm);
///     double seconds = here.seconds(ring{}, 1 << 20);      // of an all-reduce of 1 MiB among these ranks
#pragma once

#include <algorithm>  // quartiles
#include <chrono>
#include <cstddef>
#include <exception>
#include <optional>
#include <string>
#include <utility>  // declval

#include "gradsync/collective/compile.hpp"
#include "gradsync/collective/cost.hpp"
#include "gradsync/collective/native.hpp"
#include "gradsync/collective/run.hpp"
#include "gradsync/collective/schedule.hpp"
#include "gradsync/comm/transport.hpp"
#include "gradsync/core/aligned_bytes.hpp"
#include "gradsync/core/buffer_view.hpp"
#include "gradsync/core/error.hpp"
#include "gradsync/core/link.hpp"
#include "gradsync/core/series.hpp"

namespace gradsync {

/// What was measured among `size` ranks.
struct calibration {
  int size = 1;
  link wire{.alpha = 0, .beta = 0, .gamma = 0};  ///< of messages
  /// The transport's own all-reduce, if it has one: alpha seconds a pass and beta seconds a byte of the buffer, all told.
  std::optional<link> pass{};

  /// Seconds of an all-reduce of `bytes` bytes among these ranks; of a fused strategy those of the transport's own pass, if it has one.
  template <strategy S>
  double seconds(const S& s, double bytes) const {
    if (is_fused<S>() && pass) return pass->alpha + bytes * pass->beta;
    return cost(s, wire, size, bytes);
  }
};

/// Times collectives among all ranks of a communicator, over a channel and a buffer of ones of its own.
///
///     stopwatch watch{comm, 1 << 20};
///     double seconds = watch.time(compile(ring{}, comm.rank(), comm.size()), 1 << 20);   // on this rank; all ranks must call it together
template <transport Communicator>
class stopwatch {
 public:
  static constexpr bool has_pass = fused_channel<decltype(std::declval<Communicator&>().open(1))>;

  stopwatch(Communicator& comm, std::size_t bytes)
      : comm_(comm), channel_(comm.open(1)), memory_(comm.allocate(bytes)), whole_{memory_.data(), 0, bytes / sizeof(float)} {
    if constexpr (stream_of<Communicator>::asynchronous)
      throw usage_error("calibrate() and automatic take the time on the host, and these collectives run on a device; name a strategy",
                        place_of(comm, comm.rank()));
    std::fill_n(reinterpret_cast<float*>(memory_.data()), whole_.count, 1.0f);
  }

  /// Seconds from a common start until no peer touches the buffer's first `bytes` bytes any more. `usage_error` if it has no so many; else
  /// throws as `all_reduce` does.
  double time(const program& p, std::size_t bytes) {
    if (bytes > memory_.size())
      throw usage_error("the buffer of this stopwatch has " + std::to_string(memory_.size()) + " bytes, not " + std::to_string(bytes));
    try {
      comm_.barrier();
      whole_.count = bytes / sizeof(float);
      const auto begin = std::chrono::steady_clock::now();
      cursor at{.place = channel_.post(p, {.buffer = {dtype::float32, {&whole_, 1}}, .scale = 1, .weight = 1, .call = 0})};
      run(p, channel_, at, comm_.limit());
      channel_.drain(p, at.place, comm_.limit());
      return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    } catch (...) {
      comm_.fail(std::current_exception());
      channel_.leave();  // the memory is lent
      throw;
    }
  }

 private:
  Communicator& comm_;
  decltype(std::declval<Communicator&>().open(1)) channel_;
  aligned_bytes memory_;
  extent whole_;
};

namespace detail {

// Every rank hands one of three chunks to the next rank, and gets another of them from the rank before. Sums nothing that makes sense.
struct neighbours {
  int adds = 0;  // rounds that add before those that copy. At least three that copy leave nothing to divide.

  constexpr const char* name() const { return "neighbours"; }
  constexpr level claim(int) const { return level::none; }
  constexpr int chunks(int) const { return 3; }
  constexpr int rounds(int size) const { return size > 1 ? 6 : 0; }

  template <class Post>
  constexpr void round(int k, int rank, int size, Post&& post) const {
    const int before = (rank + size - 1) % size;
    post(send{(rank + 1) % size, (color(rank, size) + k) % 3, 1});
    post(receive{before, (color(before, size) + k) % 3, 1, k < adds ? effect::add : effect::copy});
  }

 private:
  // Another than the neighbour's, all around the circle.
  static constexpr int color(int rank, int size) { return rank % 2 == 0 && rank == size - 1 ? 2 : rank % 2; }
};

// What disturbs a run makes it longer, never shorter.
inline double lower_quartile(series<double>& of) {
  const auto quarter = of.begin() + static_cast<std::ptrdiff_t>(of.size() / 4);
  std::nth_element(of.begin(), quarter, of.end());
  return *quarter;
}

// Fits the lines: `small` and `large` are bytes of a message and, in a pass, of the buffer.
struct calibration_times {
  series<double> small, copies, adds, small_pass, large_pass;

  calibration fit(int size, int rounds, int adding, double large) {
    const double start = lower_quartile(small) / rounds, copied = lower_quartile(copies);
    calibration c{.size = size, .wire = {.alpha = start, .beta = 0, .gamma = 0}, .pass = {}};
    c.wire.beta = std::max(0.0, copied / rounds - start) / large;
    c.wire.gamma = std::max(0.0, lower_quartile(adds) - copied) / (adding * large);
    if (!small_pass.empty()) {
      const double alpha = lower_quartile(small_pass);
      c.pass = link{.alpha = alpha, .beta = std::max(0.0, lower_quartile(large_pass) - alpha) / (3 * large), .gamma = 0};
    }
    return c;
  }
};

}  // namespace detail

/// All ranks of `comm` measure together, over a channel of their own.
template <transport Communicator>
calibration calibrate(Communicator& comm) {
  if (comm.size() == 1) return {};
  constexpr std::size_t small = 3 * 64, large = 3 << 18;  // bytes of the buffer, three messages
  constexpr auto budget = std::chrono::milliseconds(20);
  constexpr detail::neighbours copying{}, adding{.adds = 3};
  const program copies = compile(copying, comm.rank(), comm.size()), adds = compile(adding, comm.rank(), comm.size());
  const program pass = compile(native{}, comm.rank(), comm.size());
  stopwatch<Communicator> watch(comm, large);
  detail::calibration_times times;
  const auto begin = std::chrono::steady_clock::now();
  do {
    times.small.push_back(watch.time(copies, small));
    times.copies.push_back(watch.time(copies, large));
    times.adds.push_back(watch.time(adds, large));
    if constexpr (stopwatch<Communicator>::has_pass) {
      times.small_pass.push_back(watch.time(pass, small));
      times.large_pass.push_back(watch.time(pass, large));
    }
  } while (comm.broadcast(std::chrono::steady_clock::now() - begin < budget ? 1 : 0, 0) != 0);
  calibration c = times.fit(comm.size(), copying.rounds(comm.size()), adding.adds, large / 3.0);
  for (double* figure : {&c.wire.alpha, &c.wire.beta, &c.wire.gamma}) *figure = comm.broadcast(*figure, 0);
  if (c.pass)
    for (double* figure : {&c.pass->alpha, &c.pass->beta}) *figure = comm.broadcast(*figure, 0);
  return c;
}

}  // namespace gradsync
