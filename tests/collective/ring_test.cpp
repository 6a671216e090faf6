// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0
#include "gradsync/collective/ring.hpp"

#include <doctest/doctest.h>

#include "gradsync/collective/cost.hpp"
#include "tests/laws/strategy_laws.hpp"

using namespace gradsync;

// One assertion a size: each has a compiler's full budget of constexpr steps.
static_assert(laws::proved(ring{}, 1));
static_assert(laws::proved(ring{}, 2));
static_assert(laws::proved(ring{}, 3));
static_assert(laws::proved(ring{}, 4));
static_assert(laws::proved(ring{}, 5));
static_assert(laws::proved(ring{}, 6));
static_assert(laws::proved(ring{}, 7));
static_assert(laws::proved(ring{}, 8));
static_assert(laws::proved(ring{}, 9));

TEST_CASE("ring obeys the laws of a strategy") { laws::strategy_laws(ring{}, 17); }

TEST_CASE("ring holds exactly its claim up to 64 ranks") {
  for (int size = 1; size <= 64; ++size) {
    INFO("ranks: " << size);
    CHECK(laws::proved(ring{}, size));
  }
}

TEST_CASE("the ring's header states its rounds, bytes, scratch and cost") {
  const gradsync::link wire{.alpha = 3, .beta = 5, .gamma = 7};
  for (int p = 1; p <= 20; ++p) {
    INFO("ranks: " << p);
    const double n = 1000, share = n * (p - 1) / p;
    const auto programs = laws::compile_all(ring{}, p);
    for (const program& each : programs) {
      CHECK(each.rounds() == 2 * (p - 1));
      CHECK(laws::bytes_sent(each, n) == doctest::Approx(2 * share));
      CHECK(laws::messages_sent(each) == 2 * (p - 1));
      CHECK(laws::arriving_bytes(each, n) == doctest::Approx(p > 1 ? n / p : 0));
      CHECK(each.scratch_count == 0);  // where peers' memory can be read
    }
    CHECK(cost(ring{}, wire, p, n) == doctest::Approx(2 * (p - 1) * wire.alpha + 2 * share * wire.beta + share * wire.gamma));
  }
}

TEST_CASE("chunk c of the ring belongs to rank c after p-1 rounds") {
  CHECK(ring{}.owner(3, 5) == 3);
  CHECK(ring{}.reduce_rounds(5) == 4);
}
