// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// What lies between the ranks: tiers from the inside out, such as GPUs in a node, nodes in a rack, racks.
///
/// A tier says how many units of the one below it form one of its own, and what a link between two of them costs. Ranks fill the units in
/// order. A message takes the link of the innermost tier whose unit holds both ends. The last tier holds all ranks there are; one tier
/// alone is a flat topology, where all links are alike.
///
/// Where the ranks of a unit share `nics` network cards, messages that leave the unit queue there, and so do, at the same time, those that
/// enter it. Neighbouring ranks share a card: with 8 ranks and 4 cards, ranks 0 and 1 have the first.
///
///     constexpr topology cluster{.tiers = {{.units = 8, .wire = {.alpha = 2e-6, .beta = 1 / 300e9}, .nics = 4},   // GPUs in a node
///                                          {.wire = {.alpha = 8e-6, .beta = 1 / 50e9}}}};                         // any number of nodes
///     static_assert(cluster.tier_between(0, 7) == 0 && cluster.tier_between(7, 8) == 1);
#pragma once

#include <cstdint>

#include "gradsync/core/link.hpp"

namespace gradsync {

struct tier {
  int units = 0;  ///< of the tier below (innermost: ranks) in a unit of this one; 0: all that there are, which makes it the last tier
  link wire{};    ///< between any two of them
  int nics = 0;   ///< network cards that a unit's ranks share on the way out of it and in; 0: nothing queues there
};

struct topology {
  static constexpr int max_tiers = 4;

  tier tiers[max_tiers] = {};

  /// The last tier, whose one unit holds all ranks.
  constexpr int outermost() const {
    int t = 0;
    while (t + 1 < max_tiers && tiers[t].units != 0) ++t;
    return t;
  }

  /// Ranks in a unit of tier t; 0 where it holds all there are.
  constexpr std::int64_t ranks_in(int t) const {
    std::int64_t ranks = 1;
    for (int inner = 0; inner <= t; ++inner) ranks *= tiers[inner].units;
    return ranks;
  }

  /// The innermost tier whose unit holds both ranks.
  constexpr int tier_between(int a, int b) const {
    for (int t = 0;; ++t) {
      const int units = tiers[t].units;
      if (units == 0 || t + 1 == max_tiers) return t;
      a /= units;
      b /= units;
      if (a == b) return t;
    }
  }

  /// The card by which a rank leaves and enters its unit of tier t, numbered through all units. Only where the tier has cards.
  constexpr std::int64_t nic_of(int rank, int t) const {
    const std::int64_t ranks = ranks_in(t);
    return rank / ranks * tiers[t].nics + rank % ranks * tiers[t].nics / ranks;
  }

  /// Why it cannot be that of `size` ranks, in words; null if it can.
  constexpr const char* refuses(int size) const {
    const int last = outermost();
    for (int t = 0; t < max_tiers; ++t) {
      const tier& here = tiers[t];
      if (here.units < 0) return "a tier of a topology cannot have less than one unit";
      if (here.nics < 0) return "a unit of a topology cannot have less than no network card";
      // Not written as <, so that a NaN is refused too.
      if (!(here.wire.alpha >= 0 && here.wire.beta >= 0 && here.wire.gamma >= 0)) return "a link cannot cost less than nothing";
      if (t > last && (here.units != 0 || here.nics != 0)) return "tiers follow one that holds all ranks; give that one a number of units";
    }
    if (tiers[last].nics != 0) return "the last tier has network cards, but nothing lies outside of it; give them to the tier inside";
    if (size < 1) return "there must be at least one rank";
    return tiers[last].units != 0 && ranks_in(last) < size ? "there are more ranks than the tiers hold; give the last one no number"
                                                           : nullptr;
  }
};

/// All links alike.
constexpr topology flat(const link& wire) { return {.tiers = {{.units = 0, .wire = wire, .nics = 0}}}; }

}  // namespace gradsync
