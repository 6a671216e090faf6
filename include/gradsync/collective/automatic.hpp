// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// Automatic: measures the transport once, and gives each buffer the strategy that should be the fastest for its bytes.
///
/// Constructing the collective calibrates (collective/calibrate.hpp): it blocks, all ranks construct theirs together, and it takes some 30
/// ms, more where processors are busy. Then rank 0 decides for everyone, for buffers up to 256 bytes, 512 bytes, and so on to 1 GiB and
/// more. It goes through the candidates in order, and takes a later one only if it promises to be faster by a tenth: measurements are not
/// better than that. Predicted is `cost` with the measured α, β and γ, and for a transport's fused pass the line through its two
/// measurements.
///
/// The candidates are, in this order: native (where the transport has a fused pass), direct, recursive_doubling, halving_doubling, tree
/// with one segment, double_tree with 4 and with 16 segments; but only those that are canonical for this number of ranks, so that the
/// choice never changes bits. With `any_order` all of them are: then bits depend on the choice, and so on a measurement, which may come
/// out otherwise the next time. Others would never be chosen: by this cost a ring is what direct is, and another candidate is always
/// better than a tree with more segments. Each candidate that is chosen for some size is proved on every rank before it can run.
///
///     gradsync::collective sum{comm, gradsync::automatic{}};
///     std::cout << describe(sum);   // the choices, and what is predicted
#pragma once

#include <cstddef>
#include <cstdint>
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

struct automatic {
  bool any_order = false;  ///< also strategies that are not canonical; the same on all ranks

  constexpr const char* name() const { return "automatic"; }

  /// All ranks together; blocks. `mismatch_error` if ranks differ in `any_order`.
  template <transport Communicator>
  repertoire choose(Communicator& comm) const;

  /// The rule alone: the candidate for each size, by its number in the order above, and the seconds predicted for it.
  template <transport Communicator>
  series<choice> choices(const calibration& measured) const;

 private:
  // 256 bytes to 1 GiB.
  static constexpr int smallest = 8, largest = 30;
  static constexpr double worthwhile = 0.1;

  // Calls f(strategy, number) for each candidate; the number does not depend on what is allowed.
  template <transport Communicator, class F>
  void for_each_candidate(int size, F&& f) const {
    std::size_t number = 0;
    const auto offer = [&](const auto& strategy) {
      if (any_order || strategy.claim(size) == level::canonical) f(strategy, number);
      ++number;
    };
    if constexpr (fused_channel<decltype(std::declval<Communicator&>().open(1))>) offer(native{});
    offer(direct{});
    offer(recursive_doubling{});
    offer(halving_doubling{});
    offer(tree{.segments = 1});
    for (const int segments : {4, 16}) offer(double_tree{.segments = segments});
  }
};

template <transport Communicator>
series<choice> automatic::choices(const calibration& measured) const {
  series<choice> best;
  for (int k = smallest; k <= largest; ++k)
    best.push_back({.up_to = std::size_t{1} << k, .which = 0, .seconds = std::numeric_limits<double>::infinity()});
  for_each_candidate<Communicator>(measured.size, [&]<strategy S>(const S& strategy, std::size_t number) {
    const cost_curve rounds(strategy, measured.size);
    for (choice& c : best) {
      const double bytes = static_cast<double>(c.up_to);
      const double seconds =
          is_fused<S>() && measured.pass ? measured.pass->alpha + bytes * measured.pass->beta : rounds(measured.wire, bytes);
      if (seconds < (1 - worthwhile) * c.seconds) c = {.up_to = c.up_to, .which = number, .seconds = seconds};
    }
  });
  return best;
}

template <transport Communicator>
repertoire automatic::choose(Communicator& comm) const {
  const int mine = any_order ? 1 : 0;
  if (comm.all_reduce(mine, reduce_op::min) != comm.all_reduce(mine, reduce_op::max))
    throw mismatch_error("any_order of automatic is not the same on all ranks; give every rank the same options",
                         place_of(comm, comm.rank()));
  const calibration measured = calibrate(comm);
  // Rank 0 decides alone: the same figures might give another choice where a compiler rounds otherwise.
  series<std::uint64_t> number(largest - smallest + 1);
  series<double> seconds(number.size());
  if (comm.rank() == 0) {
    const series<choice> best = choices<Communicator>(measured);
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
