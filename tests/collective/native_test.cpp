// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "gradsync/collective/cost.hpp"
#include "gradsync/collective/native.hpp"
#include "tests/laws/strategy_laws.hpp"

using namespace gradsync;

// One assertion a size: each has a compiler's full budget of constexpr steps.
static_assert(laws::proved(native{}, 1));
static_assert(laws::proved(native{}, 2));
static_assert(laws::proved(native{}, 3));
static_assert(laws::proved(native{}, 4));
static_assert(laws::proved(native{}, 5));
static_assert(laws::proved(native{}, 6));
static_assert(laws::proved(native{}, 7));
static_assert(laws::proved(native{}, 8));
static_assert(laws::proved(native{}, 9));

TEST_CASE("native obeys the laws of a strategy") { laws::strategy_laws(native{}, 17); }

TEST_CASE("native holds exactly its claim up to 64 ranks") {
  for (int size = 1; size <= 64; ++size) {
    INFO("ranks: " << size);
    CHECK(laws::proved(native{}, size));
  }
}

TEST_CASE("native's header states its rounds, bytes, scratch and cost") {
  const link wire{.alpha = 3, .beta = 5, .gamma = 7};
  for (int p = 1; p <= 20; ++p) {
    INFO("ranks: " << p);
    const double n = 1000, share = n * (p - 1) / p;
    for (const program& each : laws::compile_all(native{}, p)) {
      CHECK(each.rounds() == (p > 1 ? 2 : 0));
      CHECK(laws::bytes_sent(each, n) == doctest::Approx(2 * share));
      CHECK(laws::messages_sent(each) == 2 * (p - 1));
      CHECK(laws::scratch_bytes(each, n) == doctest::Approx(share));
    }
    CHECK(cost(native{}, wire, p, n) == doctest::Approx(2 * (p - 1) * wire.alpha + 2 * share * wire.beta + share * wire.gamma));
  }
}

TEST_CASE("native may be run as a pass of its own, and its program says so") { CHECK(compile(native{}, 1, 4).fused); }
