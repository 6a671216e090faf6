// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0
#include "gradsync/collective/direct.hpp"

#include <doctest/doctest.h>

#include "gradsync/collective/cost.hpp"
#include "tests/laws/strategy_laws.hpp"

using namespace gradsync;

// One assertion a size: each has a compiler's full budget of constexpr steps.
static_assert(laws::proved(direct{}, 1));
static_assert(laws::proved(direct{}, 2));
static_assert(laws::proved(direct{}, 3));
static_assert(laws::proved(direct{}, 4));
static_assert(laws::proved(direct{}, 5));
static_assert(laws::proved(direct{}, 6));
static_assert(laws::proved(direct{}, 7));
static_assert(laws::proved(direct{}, 8));
static_assert(laws::proved(direct{}, 9));

TEST_CASE("direct obeys the laws of a strategy") { laws::strategy_laws(direct{}, 17); }

TEST_CASE("direct holds exactly its claim up to 64 ranks") {
  for (int size = 1; size <= 64; ++size) {
    INFO("ranks: " << size);
    CHECK(laws::proved(direct{}, size));
  }
}

TEST_CASE("direct's header states its rounds, bytes, scratch and cost") {
  const gradsync::link wire{.alpha = 3, .beta = 5, .gamma = 7};
  for (int p = 1; p <= 20; ++p) {
    INFO("ranks: " << p);
    const double n = 1000, share = n * (p - 1) / p;
    for (const program& each : laws::compile_all(direct{}, p)) {
      CHECK(each.rounds() == (p > 1 ? 2 : 0));
      CHECK(laws::bytes_sent(each, n) == doctest::Approx(2 * share));
      CHECK(laws::messages_sent(each) == 2 * (p - 1));
      CHECK(laws::arriving_bytes(each, n) == doctest::Approx(share));
      CHECK(each.scratch_count == 0);  // where peers' memory can be read
    }
    CHECK(cost(direct{}, wire, p, n) == doctest::Approx(2 * (p - 1) * wire.alpha + 2 * share * wire.beta + share * wire.gamma));
  }
}

TEST_CASE("chunk c of direct belongs to rank c after one round, and no transport may run it as a pass of its own") {
  CHECK(direct{}.owner(3, 5) == 3);
  CHECK(direct{}.reduce_rounds(5) == 1);
  CHECK_FALSE(compile(direct{}, 1, 4).fused);
}
