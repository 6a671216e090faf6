// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// Automatic: measures the transport once, and gives each buffer the strategy that should be the fastest for its bytes.
///
/// Constructing the collective blocks, all ranks construct theirs together, and it takes some 40 ms, more where processors are busy. It
/// calibrates (collective/calibrate.hpp), which gives `cost` its α, β and γ, and a transport's own pass the line through its two
/// measurements. Then it times the candidates themselves, with buffers of 256 bytes, four times as many, and so on to 1 MiB: those that the
/// model gives at most three times what it gives the best. What a candidate takes longer or shorter than its model at such a size it is
/// predicted to take between two sizes as well, in proportion to the sizes' logarithms, and beyond the last one.
///
/// Then rank 0 decides for everyone, for buffers up to 256 bytes, 512 bytes, and so on to 1 GiB and more. It goes through the candidates in
/// order, and takes a later one only if it promises to be faster by 5 %: measurements are not better than that.
///
/// The candidates are, in this order: native (where the transport has a fused pass), direct, recursive_doubling, halving_doubling, tree
/// with one segment, double_tree with 4 and with 16 segments; but only those that are canonical for this number of ranks, so that the
/// choice never changes bits. With `any_order` all of them are: then bits depend on the choice, and so on a measurement, which may come
/// out otherwise the next time. Each candidate that is chosen for some size is proved on every rank before it can run.
///
///     gradsync::collective sum{comm, gradsync::automatic{}};
///     std::cout << describe(sum);   // the choices, and what is predicted
///
/// To measure once and choose alike ever after: collective/tuning.hpp.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iterator>  // size
#include <limits>
#include <span>
#include <utility>

#include "gradsync/collective/calibrate.hpp"
#include "gradsync/collective/collective.hpp"
#include "gradsync/collective/cost.hpp"
#include "gradsync/collective/direct.hpp"
#include "gradsync/collective/double_tree.hpp"
#include "gradsync/collective/halving_doubling.hpp"
#include "gradsync/collective/native.hpp"
#include "gradsync/collective/recursive_doubling.hpp"
#include "gradsync/collective/schedule.hpp"
#include "gradsync/collective/tree.hpp"
#include "gradsync/comm/transport.hpp"
#include "gradsync/core/error.hpp"
#include "gradsync/core/reduce_op.hpp"
#include "gradsync/core/series.hpp"

namespace gradsync {

/// Seconds of the candidates with buffers of one size, by their number; 0 of those that were not timed.
struct timed_candidates {
  int log2_bytes = 0;
  series<double> seconds;
};

struct automatic {
  bool any_order = false;      ///< also strategies that are not canonical; the same on all ranks
  bool transport_pass = true;  ///< native too, where the transport has a pass of its own; the same on all ranks

  constexpr const char* name() const { return "automatic"; }

  /// All ranks together; blocks. `mismatch_error` if ranks differ in the options.
  template <transport Communicator>
  repertoire choose(Communicator& comm) const;

  /// The rule alone: the candidate for each size, by its number in the order above, and the seconds predicted for it. `timed` by ascending
  /// bytes.
  template <transport Communicator>
  series<choice> choices(const calibration& measured, const series<timed_candidates>& timed = {}) const;

 private:
  // 256 bytes to 1 GiB.
  static constexpr int smallest = 8, largest = 30;
  static constexpr double worthwhile = 0.05, hopeless = 3;

  // Of each size that is timed.
  static constexpr auto budget = std::chrono::milliseconds(2);
  template <transport Communicator>
  series<timed_candidates> time_candidates(Communicator& comm, const calibration& measured) const;

  // Seconds by the model alone.
  template <strategy S>
  static double model(const cost_curve& rounds, const calibration& measured, int log2_bytes) {
    const auto bytes = static_cast<double>(std::size_t{1} << log2_bytes);
    return is_fused<S>() && measured.pass ? measured.pass->alpha + bytes * measured.pass->beta : rounds(measured.wire, bytes);
  }

  // Calls f(strategy, number) for each candidate; the number does not depend on what is allowed.
  template <transport Communicator, class F>
  void for_each_candidate(int size, F&& f) const {
    std::size_t number = 0;
    const auto offer = [&](const auto& strategy) {
      if (any_order || strategy.claim(size) == level::canonical) f(strategy, number);
      ++number;
    };
    if constexpr (fused_channel<decltype(std::declval<Communicator&>().open(1))>)
      if (std::exchange(number, 1) == 0 && transport_pass) f(native{}, 0);
    offer(direct{});
    offer(recursive_doubling{});
    offer(halving_doubling{});
    offer(tree{.segments = 1});
    for (const int segments : {4, 16}) offer(double_tree{.segments = segments});
  }
};

namespace detail {

// What a candidate took over what the model says, in proportion between two sizes that were timed. One that never was is out of the
// question: it was hopeless at all of them.
template <class Model>
double correction(const series<timed_candidates>& timed, std::size_t number, int log2_bytes, const Model& model) {
  double below = timed.empty() ? 1 : std::numeric_limits<double>::infinity();
  int at = 0;
  for (const timed_candidates& t : timed) {
    if (t.seconds[number] == 0) continue;
    const double here = t.seconds[number] / model(t.log2_bytes);
    if (t.log2_bytes >= log2_bytes) return at == 0 ? here : below + (here - below) * (log2_bytes - at) / (t.log2_bytes - at);
    below = here;
    at = t.log2_bytes;
  }
  return below;
}

}  // namespace detail

template <transport Communicator>
series<choice> automatic::choices(const calibration& measured, const series<timed_candidates>& timed) const {
  series<choice> best;
  for (int k = smallest; k <= largest; ++k)
    best.push_back({.up_to = std::size_t{1} << k, .which = 0, .seconds = std::numeric_limits<double>::infinity()});
  for_each_candidate<Communicator>(measured.size, [&]<strategy S>(const S& strategy, std::size_t number) {
    const cost_curve rounds(strategy, measured.size);
    const auto predicted = [&](int k) { return model<S>(rounds, measured, k); };
    for (int k = smallest; k <= largest; ++k) {
      choice& c = best[detail::index(k - smallest)];
      const double seconds = predicted(k) * detail::correction(timed, number, k, predicted);
      if (seconds < (1 - worthwhile) * c.seconds) c = {.up_to = c.up_to, .which = number, .seconds = seconds};
    }
  });
  return best;
}

template <transport Communicator>
series<timed_candidates> automatic::time_candidates(Communicator& comm, const calibration& measured) const {
  constexpr int sizes[] = {8, 10, 12, 14, 16, 18, 20};
  constexpr std::size_t count = std::size(sizes);
  struct candidate {
    std::size_t number;
    program steps;
    double seconds[count];  // by the model
    series<double> took{};
  };
  series<candidate> all;
  std::size_t end = 0;
  for_each_candidate<Communicator>(comm.size(), [&]<strategy S>(const S& strategy, std::size_t number) {
    candidate c{.number = number, .steps = compile(strategy, comm.rank(), comm.size()), .seconds = {}};
    if constexpr (!fused_channel<channel_of<Communicator>>) c.steps.fused = false;
    if (comm.rank() == 0) {  // whose word counts
      const cost_curve rounds(strategy, comm.size());
      for (std::size_t i = 0; i < count; ++i) c.seconds[i] = model<S>(rounds, measured, sizes[i]);
    }
    all.push_back(std::move(c));
    end = number + 1;
  });
  stopwatch<Communicator> watch(comm, std::size_t{1} << sizes[count - 1]);
  series<timed_candidates> timed;
  for (std::size_t i = 0; i < count; ++i) {
    double least = std::numeric_limits<double>::infinity();
    for (const candidate& c : all) least = c.seconds[i] < least ? c.seconds[i] : least;
    std::uint64_t hopeful = 0;  // by rank 0's figures
    for (const candidate& c : all) hopeful |= std::uint64_t{c.seconds[i] <= hopeless * least} << c.number;
    hopeful = comm.broadcast(hopeful);
    const auto begin = std::chrono::steady_clock::now();
    int turns = 0;
    do {
      for (candidate& c : all)
        if ((hopeful >> c.number & 1) != 0) {
          watch.time(c.steps, std::size_t{1} << sizes[i]);  // what another one has left in the caches would count otherwise
          c.took.push_back(watch.time(c.steps, std::size_t{1} << sizes[i]));
        }
    } while (comm.broadcast(++turns < 2 || std::chrono::steady_clock::now() - begin < budget ? 1 : 0) != 0);
    timed.push_back({.log2_bytes = sizes[i], .seconds = series<double>(end)});
    for (candidate& c : all) {
      if (!c.took.empty()) timed[i].seconds[c.number] = detail::lower_quartile(c.took);
      c.took.clear();
    }
  }
  return timed;
}

template <transport Communicator>
repertoire automatic::choose(Communicator& comm) const {
  const int mine = (any_order ? 1 : 0) + (transport_pass ? 2 : 0);
  if (comm.all_reduce(mine, reduce_op::min) != comm.all_reduce(mine, reduce_op::max))
    throw mismatch_error("the options of automatic are not the same on all ranks; give every rank the same", place_of(comm, comm.rank()));
  const calibration measured = calibrate(comm);
  const series<timed_candidates> timed = comm.size() > 1 ? time_candidates(comm, measured) : series<timed_candidates>();
  // Rank 0 decides alone: the same figures might give another choice where a compiler rounds otherwise.
  series<std::uint64_t> number(largest - smallest + 1);
  series<double> seconds(number.size());
  if (comm.rank() == 0) {
    const series<choice> best = choices<Communicator>(measured, timed);
    for (std::size_t i = 0; i < best.size(); ++i) {
      number[i] = best[i].which;
      seconds[i] = best[i].seconds;
    }
  }
  comm.broadcast(std::span<std::uint64_t>(number));
  comm.broadcast(std::span<double>(seconds));
  repertoire chosen;
  for (std::size_t i = 0; i < number.size(); ++i)
    chosen.choices.push_back({.up_to = std::size_t{1} << (smallest + static_cast<int>(i)), .which = 0, .seconds = seconds[i]});
  for_each_candidate<Communicator>(comm.size(), [&](const auto& strategy, std::size_t candidate) {
    bool used = false;
    for (std::size_t i = 0; i < number.size(); ++i)
      if (number[i] == candidate) {
        chosen.choices[i].which = chosen.programs.size();
        used = true;
      }
    if (used) chosen.programs.push_back(prove(comm, strategy));
  });
  return chosen;
}

}  // namespace gradsync
