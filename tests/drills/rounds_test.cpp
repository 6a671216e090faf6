// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

// Every trouble, on every rank, in every round of every strategy; among five ranks one trouble each, by turns.
#include <doctest/doctest.h>

#include "tests/drills/drill.hpp"

using namespace drills;

namespace {

void every_round(int ranks, std::uint64_t seed) {
  for (std::size_t strategy = 0; strategy < strategy_count(); ++strategy)
    for (int victim = 0; victim < ranks; ++victim)
      for (int round = fault_plan::posting; round <= rounds_of(strategy, ranks); ++round)
        for (trouble what : all_troubles) {
          if (!chosen(++seed)) continue;
          if (ranks == 5 && seed % 5 != static_cast<std::uint64_t>(victim + round - fault_plan::posting) % 5) continue;
          const std::uint64_t random = laws::mixed(seed);
          perform({.seed = seed,
                   .ranks = ranks,
                   .strategy = strategy,
                   .what = what,
                   .victim = victim,
                   .bucket = random % 3,
                   .round = round,
                   .progress = random / 3 % 2 == 0 ? progress::at_marks : progress::thread,
                   .layout = random / 6 % 3 == 0 ? layout::packed : layout::in_place});
        }
}

}  // namespace

TEST_CASE("two ranks") { every_round(2, 20'000); }
TEST_CASE("three ranks") { every_round(3, 30'000); }
TEST_CASE("four ranks") { every_round(4, 40'000); }
TEST_CASE("five ranks") { every_round(5, 50'000); }
