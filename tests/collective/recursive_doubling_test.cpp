// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0
#include "gradsync/collective/recursive_doubling.hpp"

#include <doctest/doctest.h>

#include <span>

#include "gradsync/collective/cost.hpp"
#include "tests/laws/strategy_laws.hpp"

using namespace gradsync;

// One assertion a size: each has a compiler's full budget of constexpr steps.
static_assert(laws::proved(recursive_doubling{}, 1));
static_assert(laws::proved(recursive_doubling{}, 2));
static_assert(laws::proved(recursive_doubling{}, 3));
static_assert(laws::proved(recursive_doubling{}, 4));
static_assert(laws::proved(recursive_doubling{}, 5));
static_assert(laws::proved(recursive_doubling{}, 6));
static_assert(laws::proved(recursive_doubling{}, 7));
static_assert(laws::proved(recursive_doubling{}, 8));
static_assert(laws::proved(recursive_doubling{}, 9));

TEST_CASE("recursive_doubling obeys the laws of a strategy") { laws::strategy_laws(recursive_doubling{}, 17); }

TEST_CASE("recursive_doubling holds exactly its claim up to 130 ranks") {
  for (int size = 1; size <= 130; ++size) {
    INFO("ranks: " << size);
    CHECK(laws::proved(recursive_doubling{}, size));
  }
}

namespace {

int ceil_log2(int p) {
  int levels = 0;
  while ((1 << levels) < p) ++levels;
  return levels;
}

// Messages of the busiest rank in round k, as the header states it.
int busiest(int p, int k) {
  const int block = 1 << k, rest = p % block;
  return (p & block) != 0 && rest > 0 ? (block + rest - 1) / rest : 1;
}

}  // namespace

TEST_CASE("recursive_doubling's header states its rounds, bytes, scratch and cost") {
  const gradsync::link wire{.alpha = 3, .beta = 7, .gamma = 5};
  for (int p = 1; p <= 70; ++p) {
    INFO("ranks: " << p);
    const double n = 1000;
    const extent all{nullptr, 0, 250};
    const buffer_view buffer{dtype::float32, std::span(&all, 1)};
    const int rounds = ceil_log2(p);
    const bool power = (1 << rounds) == p;
    double seconds = rounds * n * wire.gamma;
    for (int k = 0; k < rounds; ++k) seconds += busiest(p, k) * (wire.alpha + n * wire.beta);
    CHECK(cost(recursive_doubling{}, wire, p, n) == doctest::Approx(seconds));
    if (power) CHECK(seconds == doctest::Approx(rounds * (wire.alpha + n * wire.beta + n * wire.gamma)));

    CHECK(recursive_doubling{}.rounds(p) == rounds);
    bool odd = false;
    for (const program& each : laws::compile_all(recursive_doubling{}, p)) {
      if (power) CHECK(laws::bytes_sent(each, n) == doctest::Approx(n * rounds));
      CHECK(laws::arriving_bytes(each, n) == doctest::Approx(p > 1 ? n : 0));
      CHECK(each.scratch_bytes(buffer) == (p > 1 ? 1000 : 0));  // where peers' memory can be read
      odd = odd || (each.rounds() > rounds && !each.round(rounds).empty());
      CHECK(each.rounds() - rounds <= 1);
    }
    if (power) CHECK(odd == (rounds % 2 == 1));  // each round, each rank writes what it sends
  }
}

TEST_CASE("block and rest meet in the round in which the block is done: 13 = 8 + 4 + 1") {
  using posts = laws::posts;
  const auto of = [](int k, int rank) { return laws::posted(recursive_doubling{}, k, rank, 13); };
  CHECK(of(2, 12) == posts{{1, 8, 0, 1, 1}, {0, 8, 0, 1, 0}, {0, 9, 0, 1, 0}, {0, 10, 0, 1, 0}, {0, 11, 0, 1, 0}});
  CHECK(of(2, 8) == posts{{1, 12, 0, 1, 1}, {0, 12, 0, 1, 0}});
  CHECK(of(2, 11) == posts{{1, 12, 0, 1, 1}});
  CHECK(of(3, 12) == posts{{1, 4, 0, 1, 1}, {0, 4, 0, 1, 0}});
  CHECK(of(3, 5) == posts{{1, 8, 0, 1, 1}});
  CHECK(of(3, 8) == posts{{1, 0, 0, 1, 1}, {0, 0, 0, 1, 0}, {0, 5, 0, 1, 0}});
  CHECK(of(0, 12).empty());
}
