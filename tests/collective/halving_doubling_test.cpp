// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0
#include "gradsync/collective/halving_doubling.hpp"

#include <doctest/doctest.h>

#include "gradsync/collective/cost.hpp"
#include "tests/laws/strategy_laws.hpp"

using namespace gradsync;

// One assertion a size: each has a compiler's full budget of constexpr steps.
static_assert(laws::proved(halving_doubling{}, 1));
static_assert(laws::proved(halving_doubling{}, 2));
static_assert(laws::proved(halving_doubling{}, 3));
static_assert(laws::proved(halving_doubling{}, 4));
static_assert(laws::proved(halving_doubling{}, 5));
static_assert(laws::proved(halving_doubling{}, 6));
static_assert(laws::proved(halving_doubling{}, 7));
static_assert(laws::proved(halving_doubling{}, 8));
static_assert(laws::proved(halving_doubling{}, 9));

TEST_CASE("halving_doubling obeys the laws of a strategy") { laws::strategy_laws(halving_doubling{}, 17); }

TEST_CASE("halving_doubling holds exactly its claim up to 64 ranks") {
  for (int size = 1; size <= 64; ++size) {
    INFO("ranks: " << size);
    CHECK(laws::proved(halving_doubling{}, size));
  }
}

namespace {

int ceil_log2(int p) {
  int levels = 0;
  while ((1 << levels) < p) ++levels;
  return levels;
}

// As the header states it; `p` in blocks, the largest first.
double stated_cost(const gradsync::link& wire, int p, double n) {
  int largest = 1;
  while (2 * largest <= p) largest *= 2;
  double seconds = 2 * ceil_log2(largest) * wire.alpha + (2 * wire.beta + wire.gamma) * n * (largest - 1) / largest;
  for (int block = largest, rest = p - largest; rest > 0;) {
    int next = 1;
    while (2 * next <= rest) next *= 2;
    seconds += 2 * (block / next) * (wire.alpha + n / block * wire.beta);
    if (block != largest) seconds -= 2 * wire.alpha + (2 * wire.beta + wire.gamma) * n / (2 * block);  // in place of a round each way
    block = next;
    rest -= next;
  }
  return seconds;
}

}  // namespace

TEST_CASE("halving_doubling's header states its rounds, bytes, scratch and cost") {
  const gradsync::link wire{.alpha = 3, .beta = 7, .gamma = 5};
  for (int p = 2; p <= 70; ++p) {
    INFO("ranks: " << p);
    const double n = 1024;
    int largest = 1;
    while (2 * largest <= p) largest *= 2;
    const auto programs = laws::compile_all(halving_doubling{}, p);
    double scratch = 0;
    for (const program& each : programs) {
      CHECK(each.rounds() == 2 * ceil_log2(p));
      if (p == largest) CHECK(laws::bytes_sent(each, n) == doctest::Approx(2 * n * (p - 1) / p));
      CHECK(laws::bytes_sent(each, n) <= 2 * n);
      scratch = std::max(scratch, laws::arriving_bytes(each, n));
      CHECK(each.scratch_count == 0);  // where peers' memory can be read
    }
    if (p != largest) CHECK(laws::bytes_sent(programs[0], n) == doctest::Approx(2 * n - n / largest));
    CHECK(scratch == doctest::Approx(n / 2));
    CHECK(cost(halving_doubling{}, wire, p, n) == doctest::Approx(stated_cost(wire, p, n)));
  }
}

TEST_CASE("only ranks of the largest block own chunks, each another one") {
  const halving_doubling strategy;
  CHECK(strategy.chunks(13) == 8);
  CHECK(strategy.reduce_rounds(13) == 4);
  const int reversed[] = {0, 4, 2, 6, 1, 5, 3, 7};
  for (int c = 0; c < 8; ++c) CHECK(strategy.owner(c, 13) == reversed[c]);
}
