// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0
#include "gradsync/collective/placement.hpp"

#include <doctest/doctest.h>

#include <string>
#include <type_traits>

#include "gradsync/collective/direct.hpp"
#include "gradsync/collective/halving_doubling.hpp"
#include "gradsync/collective/recursive_doubling.hpp"
#include "gradsync/collective/ring.hpp"
#include "gradsync/collective/tree.hpp"
#include "tests/laws/strategies.hpp"
#include "tests/laws/strategy_laws.hpp"

using namespace gradsync;

namespace {

// The places of a chunk before each round and in the end, as letters.
template <strategy S>
std::string places_of(const S& s, int size, int rank, int chunk) {
  const placement places(s, size);
  std::string letters;
  for (int k = 0; k <= s.rounds(size); ++k) letters += places.before(k, rank, chunk) == region::buffer ? 'b' : 's';
  return letters;
}

// A rank sends and writes the chunk in that round, straight from what it posts.
template <strategy S>
bool sent_and_written(const S& s, int k, int rank, int size, int chunk) {
  bool sent = false, written = false;
  s.round(k, rank, size, [&](auto message) {
    if (chunk < message.first || chunk >= message.first + message.count) return;
    if constexpr (std::is_same_v<decltype(message), send>) sent = true;
    else written = true;
  });
  return sent && written;
}

template <strategy S>
void places_change_where_they_must(const S& s, int largest) {
  for (int size = 1; size <= largest; ++size) {
    if (refusal(s, size) != nullptr) continue;
    INFO(s.name() << " on " << size << " ranks");
    const placement places(s, size);
    bool right = places.size() == size, any = false, away = false;
    for (int rank = 0; rank < size; ++rank) {
      const auto [first, count] = places.scratch_of(rank);
      for (int c = 0; c < s.chunks(size); ++c) {
        right = right && places.before(0, rank, c) == region::buffer;
        for (int k = 0; k < s.rounds(size); ++k) {
          const bool changes = sent_and_written(s, k, rank, size, c);
          right = right && (places.before(k, rank, c) != places.after(k, rank, c)) == changes;
          right = right && (!changes || (first <= c && c < first + count));
          any = any || changes;
        }
        away = away || places.before(s.rounds(size), rank, c) == region::scratch;
      }
    }
    CHECK(right);
    CHECK(places.in_place() == !any);
    CHECK(places.settles() == away);
  }
}

}  // namespace

TEST_CASE("a chunk changes its place in each round in which its rank sends and writes it, and in no other") {
  places_change_where_they_must(recursive_doubling{}, 17);
  places_change_where_they_must(ring{}, 9);
  places_change_where_they_must(tree{.segments = 3}, 9);
  places_change_where_they_must(direct{}, 6);
  places_change_where_they_must(halving_doubling{}, 13);
  places_change_where_they_must(laws::everyone_joins{}, 5);
  places_change_where_they_must(laws::handed_down{}, 6);
  places_change_where_they_must(laws::added_beside_a_send{}, 3);
  places_change_where_they_must(laws::beside<ring, recursive_doubling>{}, 9);
}

TEST_CASE("what the header's page says of recursive doubling") {
  constexpr region where = placement(recursive_doubling{}, 4).before(1, 0, 0);
  CHECK(where == region::scratch);
  CHECK(places_of(recursive_doubling{}, 4, 0, 0) == "bsb");
  CHECK(places_of(recursive_doubling{}, 8, 5, 0) == "bsbs");
  CHECK(places_of(recursive_doubling{}, 3, 0, 0) == "bsb");
  CHECK(places_of(recursive_doubling{}, 3, 1, 0) == "bss");  // in round 1 it takes and gives nothing
  CHECK(places_of(recursive_doubling{}, 3, 2, 0) == "bbs");
}

TEST_CASE("only the chunks that change places have scratch, and those between them") {
  const placement some(laws::beside<ring, recursive_doubling>{}, 4);
  CHECK((some.scratch_of(2).first == 4 && some.scratch_of(2).count == 1));
  const placement both(laws::beside<recursive_doubling, laws::beside<ring, recursive_doubling>>{}, 4);
  CHECK((both.scratch_of(0).first == 0 && both.scratch_of(0).count == 6));
  const placement one_rank(laws::added_beside_a_send{}, 3);
  CHECK((one_rank.scratch_of(0).first == 1 && one_rank.scratch_of(0).count == 1));
  CHECK((one_rank.scratch_of(1).first == 1 && one_rank.scratch_of(1).count == 1));
  CHECK(one_rank.scratch_of(2).count == 0);
}

TEST_CASE("strategies of the library that are in place are told from those that are not") {
  for (int p = 2; p <= 9; ++p) {
    CHECK((placement(ring{}, p).in_place() && placement(tree{}, p).in_place()));
    CHECK((placement(direct{}, p).in_place() && placement(halving_doubling{}, p).in_place()));
    CHECK_FALSE(placement(recursive_doubling{}, p).in_place());
  }
  CHECK(placement(recursive_doubling{}, 1).in_place());
}
