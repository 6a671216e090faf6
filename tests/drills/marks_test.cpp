// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

// Trouble in the rank's own code, before each mark of an update, while its peers may be inside its gradients: every trouble but silence, on
// every rank, with every strategy; among five ranks by one way of progress each. Gradients of several pieces, so that passes take their
// time.
#include <doctest/doctest.h>

#include "tests/drills/drill.hpp"

using namespace drills;

namespace {

void every_mark(trouble what, std::uint64_t seed) {
  for (const int ranks : {2, 3, 5})
    for (std::size_t strategy = 0; strategy < strategy_count(); ++strategy)
      for (int victim = 0; victim < ranks; ++victim)
        for (std::size_t bucket = 0; bucket < 4; ++bucket)
          for (const progress how : {progress::at_marks, progress::thread})
            if (chosen(++seed) && (ranks < 5 || (how == progress::thread) == ((bucket + strategy) % 2 == 0)))
              perform({.seed = seed,
                       .ranks = ranks,
                       .strategy = strategy,
                       .what = what,
                       .victim = victim,
                       .bucket = bucket,
                       .in_user_code = true,
                       .progress = how,
                       .layout = laws::mixed(seed) % 2 == 0 ? layout::in_place : layout::packed,
                       .counts = {100, 10'000, 3, 40}});
}

}  // namespace

TEST_CASE("an exception of one rank ends all ranks, and comes out of run() itself") { every_mark(trouble::exception, 61'000); }
TEST_CASE("a rank that returns in the middle of an update is named by all others") { every_mark(trouble::early_return, 62'000); }
TEST_CASE("a rank that stops is named by all others at the deadline") { every_mark(trouble::freeze, 63'000); }
TEST_CASE("a rank that is late, but not too late, changes nothing") { every_mark(trouble::delay, 64'000); }
