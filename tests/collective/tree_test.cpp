// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0
#include "gradsync/collective/tree.hpp"

#include <doctest/doctest.h>

#include "gradsync/collective/cost.hpp"
#include "tests/laws/strategy_laws.hpp"

using namespace gradsync;

// One assertion a size: each has a compiler's full budget of constexpr steps.
static_assert(laws::proved(tree{}, 1));
static_assert(laws::proved(tree{}, 2));
static_assert(laws::proved(tree{}, 3));
static_assert(laws::proved(tree{}, 4));
static_assert(laws::proved(tree{}, 5));
static_assert(laws::proved(tree{}, 6));
static_assert(laws::proved(tree{}, 7));
static_assert(laws::proved(tree{}, 8));
static_assert(laws::proved(tree{}, 9));
static_assert(laws::proved(tree{1}, 9) && laws::proved(tree{7}, 7));

TEST_CASE("tree obeys the laws of a strategy") { laws::strategy_laws(tree{}, 17); }

TEST_CASE("tree holds exactly its claim up to 64 ranks") {
  for (int size = 1; size <= 64; ++size) {
    INFO("ranks: " << size);
    CHECK(laws::proved(tree{}, size));
  }
}

TEST_CASE("the tree obeys the laws with one segment and with many") {
  laws::strategy_laws(tree{.segments = 1}, 6);
  laws::strategy_laws(tree{.segments = 19}, 6);
}

TEST_CASE("the tree's header states its rounds, bytes, scratch and cost") {
  const gradsync::link wire{.alpha = 3, .beta = 5, .gamma = 7};
  for (int p = 2; p <= 20; ++p)
    for (const int segments : {1, 2, 5, 16}) {
      INFO("ranks: " << p << ", segments: " << segments);
      const tree strategy{.segments = segments};
      const double n = 1000;
      int d = 0;
      while ((1 << d) < p) ++d;
      const auto programs = laws::compile_all(strategy, p);
      double scratch = 0;
      for (const program& each : programs) {
        CHECK(each.rounds() == 2 * d + segments - 1);
        int children = 0;
        for (int distance = 1; distance < p && each.rank % (2 * distance) == 0; distance *= 2) children += each.rank + distance < p ? 1 : 0;
        CHECK(laws::bytes_sent(each, n) == doctest::Approx(each.rank == 0 ? d * n : n + children * n));
        scratch = std::max(scratch, laws::arriving_bytes(each, n));
        CHECK(each.scratch_count == 0);  // where peers' memory can be read
      }
      CHECK(scratch == doctest::Approx(laws::arriving_bytes(programs[0], n)));
      CHECK(scratch == doctest::Approx(std::min(d, segments) * n / segments));
      const double messages = segments == 1 ? 2 * d : d * (segments + d);
      if (segments == 1 || segments >= 2 * d)
        CHECK(cost(strategy, wire, p, n) == doctest::Approx(messages * (wire.alpha + n / segments * wire.beta) + d * n * wire.gamma));
    }
}
