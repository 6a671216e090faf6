// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0
#include "gradsync/collective/torus.hpp"

#include <doctest/doctest.h>

#include <set>
#include <utility>

#include "gradsync/collective/cost.hpp"
#include "gradsync/collective/ring.hpp"
#include "tests/laws/over_threads.hpp"
#include "tests/laws/strategy_laws.hpp"

using namespace gradsync;

// One assertion a size: each has a compiler's full budget of constexpr steps.
static_assert(laws::proved(torus{1}, 1));
static_assert(laws::proved(torus{1}, 2) && laws::proved(torus{2}, 2));
static_assert(laws::proved(torus{2}, 4));
static_assert(laws::proved(torus{2}, 6));
static_assert(laws::proved(torus{3}, 6));

TEST_CASE("torus obeys the laws of a strategy") {
  for (int columns = 1; columns <= 5; ++columns) laws::strategy_laws(torus{.columns = columns}, 20);
}

TEST_CASE("torus gives the mean over threads") {
  laws::over_threads(torus{.columns = 2});
  laws::over_threads(torus{.columns = 3});
  laws::over_threads(torus{.columns = 4});
}

TEST_CASE("torus holds exactly its claim up to 64 ranks") {
  for (int size = 1; size <= 64; ++size)
    for (int columns = 1; columns <= size; ++columns) {
      if (size % columns != 0) continue;
      INFO("ranks: " << size << ", columns: " << columns);
      CHECK(laws::proved(torus{.columns = columns}, size));
    }
}

TEST_CASE("torus refuses numbers of ranks that fill no rectangle") {
  CHECK(describe(verify(torus{.columns = 4}, 6).first) == "torus does only numbers of ranks that its columns divide");
  CHECK(describe(verify(torus{.columns = 4}, 2).first) == "torus does only numbers of ranks that its columns divide");
  CHECK(describe(verify(torus{.columns = 0}, 6).first) == "a torus has at least one column");
}

namespace {

// To which neighbours a rank sends in a round.
std::multiset<int> peers_of(const torus& strategy, int k, int rank, int size) {
  std::multiset<int> peers;
  strategy.round(k, rank, size, [&](auto message) {
    if constexpr (std::is_same_v<decltype(message), send>) peers.insert(message.to);
  });
  return peers;
}

}  // namespace

TEST_CASE("in a square torus every rank sends one message to the right and one down in every round") {
  const torus strategy{.columns = 4};
  for (int k = 0; k < strategy.rounds(16); ++k)
    for (int rank = 0; rank < 16; ++rank) {
      const int row = rank / 4, column = rank % 4;
      CHECK(peers_of(strategy, k, rank, 16) == std::multiset<int>{4 * row + (column + 1) % 4, (row + 1) % 4 * 4 + column});
    }
}

TEST_CASE("in a torus of 3 rows and 4 columns each half sends along its own dimension first and last") {
  const torus strategy{.columns = 4};
  for (int k = 0; k < strategy.rounds(12); ++k)
    for (int rank = 0; rank < 12; ++rank) {
      const int row = rank / 4, column = rank % 4, right = 4 * row + (column + 1) % 4, below = (row + 1) % 3 * 4 + column;
      const bool first_half_in_row = k < 3 || k >= 7, second_half_in_column = k < 2 || k >= 8;
      CHECK(peers_of(strategy, k, rank, 12) ==
            std::multiset<int>{first_half_in_row ? right : below, second_half_in_column ? below : right});
    }
}

TEST_CASE("the torus's header states its rounds, bytes, scratch and cost") {
  const gradsync::link wire{.alpha = 3, .beta = 5, .gamma = 7};
  for (const auto& shape : {std::pair{1, 1}, {1, 4}, {4, 1}, {2, 2}, {2, 3}, {3, 2}, {4, 4}, {3, 7}, {8, 4}}) {
    const int r = shape.first, c = shape.second;
    INFO("rows: " << r << ", columns: " << c);
    const torus strategy{.columns = c};
    const int p = r * c;
    const double n = 1000, share = n * (p - 1) / p;
    for (const program& each : laws::compile_all(strategy, p)) {
      CHECK(each.rounds() == 2 * (r + c - 2));
      CHECK(each.scratch_count == 0);  // where peers' memory can be read
      CHECK(laws::bytes_sent(each, n) == doctest::Approx(2 * share));
      if (r > 1 && c > 1) CHECK(laws::arriving_bytes(each, n) == doctest::Approx(n / (2 * r) + n / (2 * c)));
    }
    CHECK(strategy.reduce_rounds(p) == r + c - 2);
    CHECK(cost(strategy, wire, p, n) == doctest::Approx(4 * (r + c - 2) * wire.alpha + 2 * share * wire.beta + share * wire.gamma));
  }
}

TEST_CASE("a torus has fewer rounds than the ring, and the same bytes") {
  CHECK(torus{.columns = 8}.rounds(64) == 28);
  CHECK(ring{}.rounds(64) == 126);
  const gradsync::link slow{.alpha = 0, .beta = 1, .gamma = 0};
  CHECK(cost(torus{.columns = 8}, slow, 64, 1e6) == doctest::Approx(cost(ring{}, slow, 64, 1e6)));
}
