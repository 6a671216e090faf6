// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0
#include "gradsync/collective/simulate.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <type_traits>
#include <vector>

#include "gradsync/collective/compile.hpp"
#include "gradsync/collective/cost.hpp"
#include "gradsync/collective/double_tree.hpp"
#include "gradsync/collective/halving_doubling.hpp"
#include "gradsync/collective/hierarchical.hpp"
#include "gradsync/collective/native.hpp"
#include "gradsync/collective/ring.hpp"
#include "gradsync/collective/torus.hpp"
#include "gradsync/collective/tree.hpp"

using namespace gradsync;

namespace {

using times = series<double>;
using detail::index;

constexpr gradsync::link unit{.alpha = 1, .beta = 1, .gamma = 0};
constexpr gradsync::link links[] = {{.alpha = 1e-6, .beta = 1e-10, .gamma = 2e-11},
                                    {.alpha = 1e-3, .beta = 0, .gamma = 0},
                                    {.alpha = 0, .beta = 1e-9, .gamma = 0},
                                    {.alpha = 0, .beta = 0, .gamma = 1e-9},
                                    {.alpha = 1e-7, .beta = 1e-11, .gamma = 1e-9}};
constexpr topology nodes{.tiers = {{.units = 4, .wire = {.alpha = 1e-6, .beta = 1e-11, .gamma = 1e-12}},
                                   {.units = 2, .wire = {.alpha = 5e-6, .beta = 4e-11, .gamma = 1e-12}},
                                   {.units = 0, .wire = {.alpha = 9e-6, .beta = 1e-10, .gamma = 1e-12}}}};

// A strategy of the test's own: some messages a round, of one chunk, copied or added.
struct message {
  int round, from, to, chunk;
  effect what = effect::copy;
};
struct messages {
  std::vector<message> all;
  int of_chunks = 1;

  const char* name() const { return "messages"; }
  level claim(int) const { return level::none; }
  int chunks(int) const { return of_chunks; }
  int rounds(int) const {
    int last = -1;
    for (const message& m : all) last = std::max(last, m.round);
    return last + 1;
  }
  template <class Post>
  void round(int k, int rank, int, Post&& post) const {
    for (const message& m : all) {
      if (m.round == k && m.from == rank) post(send{m.to, m.chunk, 1});
      if (m.round == k && m.to == rank) post(receive{m.from, m.chunk, 1, m.what});
    }
  }
};

struct half_posted : ring {  // rank 1 forgets to send in round 1
  template <class Post>
  constexpr void round(int k, int rank, int size, Post&& post) const {
    ring::round(k, rank, size, [&](auto m) {
      if (!std::is_same_v<decltype(m), send> || k != 1 || rank != 1) post(m);
    });
  }
};

template <class F>
void for_each_strategy(F&& f) {
  f(double_tree{.segments = 3});
  f(ring{});
  f(native{});
  f(halving_doubling{});
  for (const int segments : {1, 4, 7}) f(tree{.segments = segments});
}

// When each rank is through, written down once more, slowly: all ranks, round by round. Without cards.
template <strategy S>
times walked(const S& s, const topology& where, times at, std::size_t bytes) {
  const int size = static_cast<int>(at.size());
  const std::size_t line = (bytes + index(s.chunks(size)) - 1) / index(s.chunks(size)), chunk = (line + 63) / 64 * 64;
  const auto bytes_of = [&](int first, int count) {
    return static_cast<double>(std::min(bytes, chunk * index(first + count)) - std::min(bytes, chunk * index(first)));
  };
  for (int k = 0; k < s.rounds(size); ++k) {
    const times before = at;
    for (int rank = 0; rank < size; ++rank) {
      double out = 0, in = 0, added = 0, start = before[index(rank)];
      s.round(k, rank, size, [&](auto m) {
        int peer = 0;
        if constexpr (std::is_same_v<decltype(m), send>) peer = m.to;
        else peer = m.from;
        const gradsync::link& wire = where.tiers[where.tier_between(rank, peer)].wire;
        const double seconds = wire.alpha + wire.beta * bytes_of(m.first, m.count);
        start = std::max(start, before[index(peer)]);
        if constexpr (std::is_same_v<decltype(m), send>) {
          out += seconds;
        } else {
          in += seconds;
          if (m.what != effect::copy) added += wire.gamma * bytes_of(m.first, m.count);
        }
      });
      at[index(rank)] = start + std::max(out, in) + added;
    }
  }
  return at;
}

bool near(const times& a, const times& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](double x, double y) { return x == doctest::Approx(y).epsilon(1e-9); });
}

times delays(int size) {
  times late;
  for (int rank = 0; rank < size; ++rank) late.push_back(1e-5 * (rank * 7 % 5));
  return late;
}

}  // namespace

TEST_CASE("where all ranks are equally busy, virtual time and the formula agree") {
  for (const gradsync::link& wire : links)
    for (const int size : {1, 2, 3, 4, 5, 8, 13, 16, 31, 64})
      for (const std::size_t lines : {0u, 1u, 1000u}) {
        const std::size_t bytes = 64 * lines * index(size);
        const auto agree = [&](const auto& s) {
          INFO(s.name() << " on " << size << " ranks, " << bytes << " bytes");
          CHECK(simulate(s, flat(wire), size, bytes).seconds ==
                doctest::Approx(cost(s, wire, size, static_cast<double>(bytes))).epsilon(1e-9));
        };
        agree(ring{});
        agree(native{});
        if ((size & (size - 1)) == 0) agree(halving_doubling{});
      }
}

TEST_CASE("elsewhere ranks run ahead: virtual time is at most the formula, and sometimes less") {
  for (const gradsync::link& wire : links)
    for (int size = 1; size <= 33; ++size)
      for_each_strategy([&](const auto& s) {
        const std::size_t bytes = 6400 * index(s.chunks(size));
        INFO(s.name() << " on " << size << " ranks");
        CHECK(simulate(s, flat(wire), size, bytes).seconds <= cost(s, wire, size, static_cast<double>(bytes)) * (1 + 1e-9));
      });
  const messages apart{{{0, 0, 1, 0}, {1, 2, 3, 0}}};  // two pairs that have nothing to do with each other
  CHECK(cost(apart, unit, 4, 64) == doctest::Approx(130));
  CHECK(simulate(apart, flat(unit), 4, 64).seconds == doctest::Approx(65));
}

TEST_CASE("every rank is through when a slow walk over all ranks says so, with delays and uneven chunks") {
  for (int size = 1; size <= 19; ++size)
    for (const topology& where : {flat(links[0]), nodes})
      for (const std::size_t bytes : {0u, 4u, 1000u, 123456u})
        for_each_strategy([&](const auto& s) {
          INFO(s.name() << " on " << size << " ranks, " << bytes << " bytes");
          const times late = delays(size);
          const simulation got = simulate(s, where, late, bytes);
          CHECK(near(got.ranks, walked(s, where, late, bytes)));
          CHECK(got.seconds == *std::max_element(got.ranks.begin(), got.ranks.end()));
        });
}

TEST_CASE("composed strategies are walked, too") {
  for (const int size : {4, 8, 12, 24}) {
    const times late = delays(size);
    const auto agree = [&](const auto& s) { CHECK(near(simulate(s, nodes, late, 123456).ranks, walked(s, nodes, late, 123456))); };
    agree(torus{.columns = 4});
    agree(hierarchical{ring{}, halving_doubling{}, 4});
    agree(hierarchical{halving_doubling{}, tree{}, 2});
  }
}

TEST_CASE("of two levels, each rank's shard alone leaves the node") {
  const std::size_t bytes = 64 * 32 * 100;
  const simulation got = simulate(hierarchical{ring{}, ring{}, 4}, nodes, 32, bytes);
  const std::uint64_t between_nodes = got.tiers[1].bytes + got.tiers[2].bytes;
  CHECK(between_nodes == 4 * 2 * (8 - 1) * (bytes / 4));  // for each place in a node: 2 (8 - 1) messages a round of 8 ranks, of 1/8 shard
  CHECK(got.tiers[0].bytes == 8 * 2 * (4 - 1) * bytes);   // for each node
}

TEST_CASE("rounds end one after the other, the last with the last rank") {
  for_each_strategy([](const auto& s) {
    const simulation got = simulate(s, nodes, delays(11), 5000);
    CHECK(static_cast<int>(got.rounds.size()) == s.rounds(11));
    CHECK(std::is_sorted(got.rounds.begin(), got.rounds.end()));
    CHECK(got.rounds.back() == got.seconds);
  });
  CHECK(near(simulate(ring{}, flat(unit), 2, 128).rounds, {65, 130}));
}

TEST_CASE("messages and bytes are counted on the tier they take, as they are in the compiled programs") {
  for (int size = 1; size <= 19; ++size)
    for_each_strategy([&](const auto& s) {
      const std::size_t bytes = 640 * index(s.chunks(size));
      std::uint64_t expected[topology::max_tiers] = {}, messages = 0;
      for (int rank = 0; rank < size; ++rank)
        for (const operation& op : compile(s, rank, size).operations)
          if (op.what == operation::kind::send) {
            expected[nodes.tier_between(rank, op.peer)] += 640 * index(op.count);
            ++messages;
          }
      const simulation got = simulate(s, nodes, size, bytes);
      for (int t = 0; t < topology::max_tiers; ++t) CHECK(got.tiers[index(t)].bytes == expected[t]);
      CHECK(got.tiers[0].messages + got.tiers[1].messages + got.tiers[2].messages == messages);  // none of these has neighbouring ranges
    });
}

TEST_CASE("the busiest rank is the one that moves most, however long others wait") {
  const simulation root = simulate(tree{.segments = 1}, flat(unit), 8, 64);
  CHECK(root.busiest == 0);
  CHECK(root.busy == doctest::Approx(2 * 3 * 65));
  const simulation third = simulate(messages{{{0, 0, 1, 0}, {1, 1, 2, 0}, {2, 3, 2, 0}, {3, 2, 0, 0}}}, flat(unit), 4, 64);
  CHECK(third.busiest == 2);
  CHECK(third.busy == doctest::Approx(3 * 65));
  CHECK(simulate(ring{}, flat(unit), 5, 5 * 64).busiest == 0);  // the first, where all are alike
  CHECK(simulate(native{}, nodes, 64, 640 * 64).busiest == 0);  // but for the last bits of their sums
}

TEST_CASE("a message takes the link of the tier that it crosses, and its additions that link's time") {
  constexpr topology where{
      .tiers = {{.units = 2, .wire = {.alpha = 1, .beta = 0, .gamma = 1}}, {.wire = {.alpha = 10, .beta = 1, .gamma = 2}}}};
  CHECK(near(simulate(messages{{{0, 0, 1, 0}}}, where, 4, 64).ranks, {1, 1, 0, 0}));
  CHECK(near(simulate(messages{{{0, 1, 2, 0}}}, where, 4, 64).ranks, {0, 74, 74, 0}));
  CHECK(near(simulate(messages{{{0, 0, 1, 0, effect::add}}}, where, 4, 64).ranks, {1, 65, 0, 0}));
  CHECK(near(simulate(messages{{{0, 1, 2, 0, effect::add}}}, where, 4, 64).ranks, {0, 74, 74 + 128, 0}));
}

TEST_CASE("ranks go on as soon as their own peers let them") {
  const messages relay{{{0, 0, 1, 0}, {1, 1, 2, 0}, {1, 3, 4, 0}, {2, 2, 3, 0}}};  // ranks 3 and 4 need nobody else in round 1
  CHECK(near(simulate(relay, flat(unit), 5, 64).ranks, {65, 130, 195, 195, 65}));
}

TEST_CASE("a late rank delays those who need it, and nobody before that") {
  const messages chain{{{0, 0, 1, 0}, {1, 1, 2, 0}}};
  CHECK(near(simulate(chain, flat(unit), times{0, 0, 0}, 64).ranks, {65, 130, 130}));
  CHECK(near(simulate(chain, flat(unit), times{100, 0, 0}, 64).ranks, {165, 230, 230}));
  CHECK(near(simulate(chain, flat(unit), times{0, 0, 40}, 64).ranks, {65, 130, 130}));  // in time for its only message
  CHECK(near(simulate(chain, flat(unit), times{0, 0, 100}, 64).ranks, {65, 165, 165}));
  for_each_strategy([](const auto& s) {  // an all-reduce ends after its latest rank has come, and at most that much later
    times late(12);
    const double punctual = simulate(s, nodes, late, 100000).seconds;
    late[7] = 1;
    const double delayed = simulate(s, nodes, late, 100000).seconds;
    CHECK(delayed > 1);
    CHECK(delayed <= (1 + punctual) * (1 + 1e-9));
  });
}

TEST_CASE("messages of one unit queue at its card, on the way out and on the way in") {
  const auto with_cards = [](int cards) {
    return topology{.tiers = {{.units = 4, .wire = unit, .nics = cards}, {.units = 0, .wire = unit, .nics = 0}}};
  };
  const messages out{{{0, 0, 4, 0}, {0, 1, 8, 0}, {0, 2, 12, 0}, {0, 3, 16, 0}}};
  CHECK(simulate(out, with_cards(0), 20, 64).seconds == doctest::Approx(65));
  CHECK(simulate(out, with_cards(4), 20, 64).seconds == doctest::Approx(65));
  CHECK(simulate(out, with_cards(2), 20, 64).seconds == doctest::Approx(1 + 2 * 64));
  CHECK(simulate(out, with_cards(1), 20, 64).seconds == doctest::Approx(1 + 4 * 64));
  const messages in{{{0, 4, 0, 0}, {0, 8, 1, 0}, {0, 12, 2, 0}, {0, 16, 3, 0}}};
  CHECK(simulate(in, with_cards(2), 20, 64).seconds == doctest::Approx(1 + 2 * 64));
  CHECK(simulate(in, with_cards(1), 20, 64).seconds == doctest::Approx(1 + 4 * 64));
  const messages both{{{0, 0, 4, 0}, {0, 5, 1, 0}}};
  CHECK(simulate(both, with_cards(1), 20, 64).seconds == doctest::Approx(65));  // both directions at once
  const messages inside{{{0, 0, 1, 0}, {0, 2, 3, 0}}};
  CHECK(simulate(inside, with_cards(1), 20, 64).seconds == doctest::Approx(65));  // they do not leave the unit
}

TEST_CASE("cards of nested units are all on the way") {
  constexpr topology where{.tiers = {{.units = 2, .wire = unit, .nics = 0}, {.units = 2, .wire = unit, .nics = 1}, {.wire = unit}}};
  CHECK(simulate(messages{{{0, 0, 4, 0}, {0, 2, 5, 0}}}, where, 8, 64).seconds == doctest::Approx(1 + 2 * 64));  // two nodes of one rack
  CHECK(simulate(messages{{{0, 0, 2, 0}, {0, 1, 3, 0}}}, where, 8, 64).seconds == doctest::Approx(65));          // within the rack
  constexpr topology wide{.tiers = {{.units = 2, .wire = unit, .nics = 1}, {.units = 2, .wire = unit, .nics = 4}, {.wire = unit}}};
  CHECK(simulate(messages{{{0, 0, 4, 0}, {0, 1, 6, 0}}}, wide, 8, 64).seconds ==
        doctest::Approx(1 + 2 * 64));  // the node's, not the rack's
}

TEST_CASE("a card serves first who comes first, also from a later round") {
  constexpr topology where{.tiers = {{.units = 2, .wire = unit, .nics = 1}, {.wire = unit}}};
  const messages pairs{{{0, 0, 2, 0}, {1, 0, 2, 0}, {0, 1, 3, 0}}};  // rank 0 has two rounds to go before rank 1 is there
  CHECK(near(simulate(pairs, where, times{0, 1000, 0, 0}, 64).ranks, {130, 1065, 130, 1065}));
  CHECK(near(simulate(pairs, where, times{0, 10, 0, 0}, 64).ranks, {193, 129, 193, 129}));
}

TEST_CASE("cards make nothing faster, and one each changes nothing where a rank has one message at a time") {
  for (int size = 1; size <= 24; ++size) {
    topology cards = nodes;
    cards.tiers[0].nics = 4;
    cards.tiers[1].nics = 8;
    const times late = delays(size);
    const auto unchanged = [&](const auto& s) {
      CHECK(near(simulate(s, cards, late, 100000).ranks, simulate(s, nodes, late, 100000).ranks));
    };
    unchanged(ring{});
    if ((size & (size - 1)) == 0) unchanged(halving_doubling{});
    cards.tiers[0].nics = 1;
    for_each_strategy(
        [&](const auto& s) { CHECK(simulate(s, cards, late, 100000).seconds >= simulate(s, nodes, late, 100000).seconds * (1 - 1e-9)); });
  }
}

TEST_CASE("the same question has the same answer") {
  topology cards = nodes;
  cards.tiers[0].nics = 1;
  const simulation a = simulate(native{}, cards, delays(24), 100000), b = simulate(native{}, cards, delays(24), 100000);
  CHECK(a.ranks == b.ranks);
  CHECK(a.rounds == b.rounds);
}

TEST_CASE("16,384 ranks by tree and by halving and doubling") {
  const simulation up = simulate(tree{}, flat(links[0]), 16384, 1 << 20),
                   half = simulate(halving_doubling{}, flat(links[0]), 16384, 1 << 20);
  CHECK(up.tiers[0].messages == 2 * 4 * 16383);
  CHECK(half.seconds == doctest::Approx(cost(halving_doubling{}, links[0], 16384, 1 << 20)).epsilon(1e-9));
}

TEST_CASE("what makes no sense is refused in words") {
  CHECK_THROWS_WITH_AS(simulate(ring{}, flat(unit), 0, 64), "gradsync: simulate: there must be at least one rank", usage_error);
  CHECK_THROWS_WITH_AS(simulate(ring{}, flat(unit), -5, 64), "gradsync: simulate: there must be at least one rank", usage_error);
  CHECK_THROWS_AS(simulate(ring{}, flat({.alpha = -1, .beta = 0, .gamma = 0}), 4, 64), usage_error);
  CHECK_THROWS_WITH_AS(simulate(ring{}, flat(unit), times{0, -1}, 64),
                       "gradsync: simulate: a rank cannot begin before the start; give the others a delay", usage_error);
  struct even_only : ring {
    constexpr const char* refuses(int size) const { return size % 2 == 0 ? nullptr : "it takes two to tango"; }
  };
  CHECK_NOTHROW(simulate(even_only{}, flat(unit), 4, 64));
  CHECK_THROWS_WITH_AS(simulate(even_only{}, flat(unit), 5, 64), "gradsync: strategy ring on 5 ranks: it takes two to tango", usage_error);
}

TEST_CASE("a message without another end is found, and no walk goes on for ever") {
  CHECK_THROWS_WITH_AS(simulate(half_posted{}, flat(unit), 4, 64), doctest::Contains("has no other end; ask verify what is wrong"),
                       usage_error);
  CHECK_THROWS_AS(simulate(messages{{{0, 0, 7, 0}}}, flat(unit), 4, 64), usage_error);   // no such rank
  CHECK_THROWS_AS(simulate(messages{{{0, 2, 2, 0}}}, flat(unit), 4, 64), usage_error);   // to itself
  CHECK_THROWS_AS(simulate(messages{{{0, 0, 1, 1}}}, flat(unit), 4, 64), usage_error);   // no such chunk
  CHECK_THROWS_AS(simulate(messages{{{0, 0, 1, -1}}}, flat(unit), 4, 64), usage_error);  // no such chunk
}
