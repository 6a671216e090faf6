// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0
#include "gradsync/collective/double_tree.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "gradsync/collective/cost.hpp"
#include "gradsync/collective/tree.hpp"
#include "tests/laws/over_threads.hpp"
#include "tests/laws/strategy_laws.hpp"

using namespace gradsync;

// One assertion a size: each has a compiler's full budget of constexpr steps.
static_assert(laws::proved(double_tree{2}, 1));
static_assert(laws::proved(double_tree{2}, 2));
static_assert(laws::proved(double_tree{2}, 3));
static_assert(laws::proved(double_tree{2}, 4));
static_assert(laws::proved(double_tree{2}, 5));
static_assert(laws::proved(double_tree{2}, 6));
static_assert(laws::proved(double_tree{2}, 7));
static_assert(laws::proved(double_tree{2}, 8));
static_assert(laws::proved(double_tree{2}, 9));

namespace {

int floor_log2(int p) {
  int levels = 0;
  while (p >> (levels + 1) > 0) ++levels;
  return levels;
}

}  // namespace

TEST_CASE("double_tree obeys the laws of a strategy") { laws::strategy_laws(double_tree{}, 17); }

TEST_CASE("double_tree holds exactly its claim up to 70 ranks") {
  for (int size = 1; size <= 70; ++size) {
    INFO("ranks: " << size);
    CHECK(laws::proved(double_tree{}, size));
  }
}

TEST_CASE("the double tree obeys the laws with one segment and with many") {
  laws::strategy_laws(double_tree{.segments = 1}, 6);
  laws::strategy_laws(double_tree{.segments = 19}, 6);
}

TEST_CASE("the double tree gives the mean over threads") {
  laws::over_threads(double_tree{.segments = 3});
  laws::over_threads(double_tree{.segments = 1}, {2, 5});
}

TEST_CASE("in no round a rank of the double tree sends two messages, or receives two; and no round is empty") {
  for (int p = 2; p <= 100; ++p) {
    INFO("ranks: " << p);
    int most_sent = 0, most_received = 0, emptiest = p;
    const double_tree strategy;
    for (int k = 0; k < strategy.rounds(p); ++k) {
      int in_round = 0;
      for (int rank = 0; rank < p; ++rank) {
        int sent = 0, received = 0;
        strategy.round(k, rank, p, [&](auto message) { ++(std::is_same_v<decltype(message), send> ? sent : received); });
        most_sent = std::max(most_sent, sent);
        most_received = std::max(most_received, received);
        in_round += sent;
      }
      emptiest = std::min(emptiest, in_round);
    }
    CHECK(most_sent == 1);
    CHECK(most_received == 1);
    CHECK(emptiest >= 1);
  }
}

TEST_CASE("each tree of the double tree spans all ranks, and nobody has children in both") {
  const double_tree strategy{.segments = 1};
  for (int p = 2; p <= 100; ++p) {
    INFO("ranks: " << p);
    std::set<int> senders[2], parents[2];  // by chunk, which is the tree
    for (int k = 0; k < strategy.rounds(p) / 2; ++k)
      for (int rank = 0; rank < p; ++rank)
        strategy.round(k, rank, p, [&](auto message) {
          if constexpr (std::is_same_v<decltype(message), send>) {
            senders[message.first].insert(rank);
            parents[message.first].insert(message.to);
          }
        });
    for (const auto& all : senders) CHECK(static_cast<int>(all.size()) == p - 1);  // all but the root
    for (const int parent : parents[0]) CHECK_FALSE(parents[1].contains(parent));
  }
}

TEST_CASE("the double tree's header states its rounds, bytes, scratch and cost") {
  const gradsync::link wire{.alpha = 3, .beta = 5, .gamma = 7};
  for (int p = 2; p <= 40; ++p)
    for (const int segments : {1, 2, 5, 16}) {
      INFO("ranks: " << p << ", segments: " << segments);
      const double_tree strategy{.segments = segments};
      const double n = 1000;
      const int turns = p == 2 ? 1 : 2, climb = turns * (floor_log2(p) + segments - 1);
      double most_sent = 0;
      for (const program& each : laws::compile_all(strategy, p)) {
        CHECK(each.rounds() == 2 * climb);
        CHECK(each.scratch_count == 0);  // where peers' memory can be read
        std::set<int> up[2], down[2];    // whom it sends to, by tree
        for (int k = 0; k < each.rounds(); ++k)
          for (const operation& op : each.round(k))
            if (op.what == operation::kind::send) (k < climb ? up : down)[op.first / segments].insert(op.peer);
        const std::size_t parents = up[0].size() + up[1].size(), children = down[0].size() + down[1].size();
        CHECK((parents == 2 || (parents == 1 && children <= 2)));
        CHECK(laws::bytes_sent(each, n) == doctest::Approx(n / 2 * static_cast<double>(parents + children)));
        if (parents == 1) CHECK(laws::bytes_sent(each, n) == doctest::Approx(p == 2 ? n : 1.5 * n));
        most_sent = std::max(most_sent, laws::bytes_sent(each, n));
        CHECK(laws::arriving_bytes(each, n) <= n / (2 * segments) + 1e-9);
      }
      CHECK(most_sent <= 2 * n + 1e-9);
      const double segment = n / (2 * segments);
      CHECK(cost(strategy, wire, p, n) == doctest::Approx(2 * climb * (wire.alpha + segment * wire.beta) + climb * segment * wire.gamma));
    }
}

TEST_CASE("the double tree costs least where its header says, and then beats the tree on large buffers") {
  const gradsync::link wire{.alpha = 1e-6, .beta = 1e-10, .gamma = 2e-11};
  const double n = 1e8;
  const int best = static_cast<int>(std::lround(std::sqrt((floor_log2(64) - 1) * n * wire.beta / (2 * wire.alpha))));
  const auto seconds = [&](int segments) {
    return cost(double_tree{.segments = segments}, gradsync::link{wire.alpha, wire.beta, 0}, 64, n);
  };
  CHECK(seconds(best) <= seconds(best / 2));
  CHECK(seconds(best) <= seconds(best * 2));
  CHECK(2 * cost(double_tree{.segments = best}, wire, 64, n) < cost(tree{.segments = best}, wire, 64, n));
}
