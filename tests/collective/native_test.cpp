// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0
#include "gradsync/collective/native.hpp"

#include <doctest/doctest.h>

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

TEST_CASE("native is direct, but may be run as a pass of its own, and its program says so") {
  for (int p = 1; p <= 9; ++p)
    for (int rank = 0; rank < p; ++rank) {
      const program mine = compile(native{}, rank, p), same = compile(direct{}, rank, p);
      CHECK((mine.fused && !same.fused));
      CHECK((mine.name == "native" && same.name == "direct"));
      CHECK(mine.operations == same.operations);
      CHECK(mine.hazards == same.hazards);
      CHECK(mine.readers == same.readers);
    }
}
