// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0
#include "gradsync/collective/compile.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <vector>

#include "gradsync/collective/halving_doubling.hpp"
#include "gradsync/collective/native.hpp"
#include "gradsync/collective/recursive_doubling.hpp"
#include "gradsync/collective/ring.hpp"
#include "gradsync/collective/tree.hpp"
#include "tests/laws/strategies.hpp"
#include "tests/laws/strategy_laws.hpp"

using namespace gradsync;
using laws::chunk_by_chunk, laws::pass, laws::wasteful;
using kind = operation::kind;

namespace {

// Four ranks, three chunks. Rank 0 adds the others' chunk by chunk, rank 3's last; of chunk 1 rank 1's before rank 2's, else after it.
struct interleaved {
  constexpr const char* name() const { return "interleaved"; }
  constexpr level claim(int) const { return level::agreed; }
  constexpr int chunks(int) const { return 3; }
  constexpr int rounds(int) const { return 2; }
  template <class Post>
  constexpr void round(int k, int rank, int, Post&& post) const {
    for (int c = 0; k == 0 && c < 3; ++c) {
      pass(rank, {0, c, 1}, c == 1 ? 1 : 2, effect::add, post);
      pass(rank, {0, c, 1}, c == 1 ? 2 : 1, effect::add, post);
      pass(rank, {0, c, 1}, 3, effect::add, post);
    }
    for (int peer = 1; k == 1 && peer < 4; ++peer) pass(rank, {peer, 0, 3}, 0, effect::copy, post);
  }
};

// Three ranks, two chunks. In round 1 rank 0 adds both chunks of rank 1 in one message: chunk 0 is whole then, chunk 1 on rank 2 later.
struct divided_in_part {
  constexpr const char* name() const { return "divided_in_part"; }
  constexpr level claim(int) const { return level::agreed; }
  constexpr int chunks(int) const { return 2; }
  constexpr int rounds(int) const { return 4; }
  template <class Post>
  constexpr void round(int k, int rank, int, Post&& post) const {
    if (k == 0) pass(rank, {0, 0, 1}, 2, effect::add, post);
    if (k == 1) pass(rank, {0, 0, 2}, 1, effect::add, post);
    if (k == 2) pass(rank, {2, 1, 1}, 0, effect::add, post);
    for (int peer = 1; k == 2 && peer < 3; ++peer) pass(rank, {peer, 0, 1}, 0, effect::copy, post);
    for (int peer = 0; k == 3 && peer < 2; ++peer) pass(rank, {peer, 1, 1}, 2, effect::copy, post);
  }
};

// What the hazards of one receive have to be, straight from the definition: for each chunk, the sends from the place that it goes to, since
// that was last written.
template <strategy S>
std::map<int, int> expected_hazards(const S& s, const program& p, int k, const operation& op) {
  const placement places(s, p.size);
  std::map<int, int> last_read;
  for (int c = op.first; c < op.first + op.count; ++c) {
    const auto covers = [&](const auto& message) { return message.first <= c && c < message.first + message.count; };
    int written = -1;
    for (int j = 0; j < k; ++j)
      s.round(j, p.rank, p.size, [&](auto message) {
        if constexpr (std::is_same_v<decltype(message), receive>)
          if (covers(message) && places.after(j, p.rank, c) == op.to) written = j;
      });
    for (int j = written + 1; j < k; ++j)
      s.round(j, p.rank, p.size, [&](auto message) {
        if constexpr (std::is_same_v<decltype(message), send>)
          if (covers(message) && places.before(j, p.rank, c) == op.to && (!last_read.contains(message.to) || last_read[message.to] < j))
            last_read[message.to] = j;
      });
  }
  return last_read;
}

template <strategy S>
void hazards_are_as_defined(const S& s, int largest) {
  for (int size = 1; size <= largest; ++size)
    for (int rank = 0; rank < size && refusal(s, size) == nullptr; ++rank) {
      INFO(s.name() << ", rank " << rank << " of " << size);
      const program p = compile(s, rank, size);
      bool right = true;
      std::map<int, int> readers;
      for (int k = 0; k < p.rounds(); ++k)
        for (const operation& op : p.round(k)) {
          std::map<int, int> listed;
          for (int h = op.hazard_begin; h < op.hazard_end; ++h)
            listed.insert({p.hazards[detail::index(h)].peer, p.hazards[detail::index(h)].round});
          right = right && static_cast<int>(listed.size()) == op.hazard_end - op.hazard_begin;  // each peer once
          right =
              right && listed == (op.what == kind::send ? std::map<int, int>{} : expected_hazards(s, p, std::min(k, s.rounds(size)), op));
          if (op.what == kind::send) readers[op.peer] = k;
        }
      CHECK(right);
      series<hazard> expected;
      for (const auto& [peer, round] : readers) expected.push_back({peer, round});
      CHECK(p.readers == expected);
    }
}

// Whether some random order of pulling gives wrong sums.
bool goes_wrong(const std::vector<program>& programs) {
  const auto input = laws::random_buffers(static_cast<int>(programs.size()), 40, false, 11);
  const auto right = laws::played(programs, input, 3);
  for (unsigned seed = 1; seed <= 200; ++seed)
    if (laws::pulled(programs, input, 3, seed) != right) return true;
  return false;
}

}  // namespace

static_assert(verify(divided_in_part{}, 3).holds());
static_assert(verify(interleaved{}, 4).holds());
static_assert(verify(wasteful{}, 3).holds());

TEST_CASE("a program says what it is of") {
  const program p = compile(ring{}, 2, 5);
  CHECK(p.name == "ring");
  CHECK((p.rank == 2 && p.size == 5 && p.chunks == 5 && !p.fused));
  CHECK(p.rounds() == 8);
  CHECK(p.round_begin.size() == 9);
  CHECK(p.round_begin.front() == 0);
  CHECK(p.round_begin.back() == static_cast<int>(p.operations.size()));
  CHECK(compile(native{}, 0, 2).fused);
  CHECK(program{}.rounds() == 0);
}

TEST_CASE("one rank has an empty program") {
  const program p = compile(halving_doubling{}, 0, 1);
  CHECK(p.rounds() == 0);
  CHECK((p.operations.empty() && p.hazards.empty() && p.readers.empty()));
}

TEST_CASE("the ring's program is what one writes down by hand") {
  const program p = compile(ring{}, 0, 3);
  const series<operation> expected = {
      {kind::send, false, 1, 2, 1, 0, 0}, {kind::add, false, 2, 1, 1, 0, 0},   // round 0
      {kind::send, false, 1, 1, 1, 0, 0}, {kind::add, true, 2, 0, 1, 0, 0},    // round 1: chunk 0 is whole
      {kind::send, false, 1, 0, 1, 0, 0}, {kind::copy, false, 2, 2, 1, 0, 1},  // round 2: rank 1 read chunk 2 in round 0
      {kind::send, false, 1, 2, 1, 1, 1}, {kind::copy, false, 2, 1, 1, 1, 2},  // round 3: rank 1 read chunk 1 in round 1
  };
  REQUIRE(p.operations.size() == expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    INFO("operation " << i);
    operation got = p.operations[i];
    if (got.what == kind::send) got.hazard_begin = got.hazard_end = expected[i].hazard_begin;  // empty wherever it stands
    CHECK(got == expected[i]);
  }
  CHECK(p.hazards == series<hazard>{{1, 0}, {1, 1}});
  CHECK(p.readers == series<hazard>{{1, 3}});
}

TEST_CASE("adjacent chunks are put together again, on both ends alike") {
  for (int size = 1; size <= 13; ++size) {
    INFO("ranks: " << size);
    const auto whole = laws::compile_all(halving_doubling{}, size), cut = laws::compile_all(chunk_by_chunk<halving_doubling>{{}}, size);
    for (int rank = 0; rank < size; ++rank) CHECK(cut[detail::index(rank)].operations == whole[detail::index(rank)].operations);
  }
}

TEST_CASE("strategies cut into single chunks obey the laws") {
  laws::strategy_laws(chunk_by_chunk<halving_doubling>{{}}, 7);
  laws::strategy_laws(chunk_by_chunk<native>{{}}, 4);
}

TEST_CASE("additions into one chunk keep their order when messages grow") {
  const auto programs = laws::compile_all(interleaved{}, 4);
  const auto input = laws::random_buffers(4, 30, false, 2);
  const auto result = laws::played(programs, input, 3);
  bool right = true;
  for (std::size_t i = 0; i < 30; ++i) {
    const std::size_t first = i / 10 == 1 ? 1 : 2;
    right = right && result[1][i] == (((input[0][i] + input[first][i]) + input[3 - first][i]) + input[3][i]) / 3.0f;
  }
  CHECK(right);
  CHECK(laws::messages_match(programs));
  // Posted (peer:chunk): 2:0 1:0 3:0, 1:1 2:1 3:1, 2:2 1:2 3:2. A chunk goes with its peer's last message where that overtakes no addition.
  std::vector<std::vector<int>> messages;
  for (const operation& op : programs[0].round(0))
    if (op.what == kind::add) messages.push_back({op.peer, op.first, op.count});
  CHECK(messages == std::vector<std::vector<int>>{{2, 0, 1}, {1, 0, 2}, {3, 0, 1}, {2, 1, 2}, {3, 1, 1}, {1, 2, 1}, {3, 2, 1}});
}

TEST_CASE("a message that is divided in part becomes two, on both ends") {
  const auto programs = laws::compile_all(divided_in_part{}, 3);
  CHECK(laws::messages_match(programs));
  const auto received = programs[0].round(1), sent = programs[1].round(1);
  REQUIRE(received.size() == 2);
  REQUIRE(sent.size() == 2);
  CHECK((received[0].divides && received[0].first == 0 && !received[1].divides && received[1].first == 1));
  CHECK((sent[0].first == 0 && sent[0].count == 1 && sent[1].first == 1 && sent[1].count == 1));
  const auto input = laws::random_buffers(3, 20, true, 6);
  const auto result = laws::played(programs, input, 3);
  for (const laws::buffer& b : result) CHECK(laws::same_bits(b, laws::tree_mean(input, 3)));
}

TEST_CASE("a join is one operation for each other rank, side by side, all divided alike") {
  const program p = compile(native{}, 1, 4);
  std::vector<int> peers;
  for (const operation& op : p.round(0))
    if (op.what == kind::join) {
      CHECK((op.divides && op.first == 1 && op.count == 1));
      peers.push_back(op.peer);
    }
  CHECK(peers == std::vector<int>{0, 2, 3});
}

TEST_CASE("hazards and readers are what their definition says, found by search") {
  hazards_are_as_defined(ring{}, 9);
  hazards_are_as_defined(tree{.segments = 3}, 9);
  hazards_are_as_defined(native{}, 6);
  hazards_are_as_defined(halving_doubling{}, 13);
  hazards_are_as_defined(chunk_by_chunk<halving_doubling>{{}}, 7);
  hazards_are_as_defined(recursive_doubling{}, 17);
  hazards_are_as_defined(laws::everyone_joins{}, 5);
  hazards_are_as_defined(laws::handed_down{}, 6);
  hazards_are_as_defined(laws::added_beside_a_send{}, 3);
  hazards_are_as_defined(laws::beside<ring, recursive_doubling>{}, 9);
}

TEST_CASE("without its hazard a program goes wrong, so the laws would notice one that is missing") {
  auto programs = laws::compile_all(wasteful{}, 3);
  CHECK(programs[0].hazards == series<hazard>{{1, 1}});  // the later of the two
  CHECK_FALSE(goes_wrong(programs));
  for (program& p : programs)
    for (operation& op : p.operations) op.hazard_end = op.hazard_begin;
  CHECK(goes_wrong(programs));
}

TEST_CASE("of a second place too: recursive doubling goes wrong without the hazards of what it writes home") {
  auto programs = laws::compile_all(recursive_doubling{}, 4);
  CHECK_FALSE(goes_wrong(programs));
  for (program& p : programs)
    for (operation& op : p.operations) op.hazard_end = op.hazard_begin;
  CHECK(goes_wrong(programs));
}

TEST_CASE("recursive doubling's program is what one writes down by hand") {
  const program two = compile(recursive_doubling{}, 0, 2), four = compile(recursive_doubling{}, 2, 4);
  using enum region;
  const series<operation> expected_of_two = {
      {kind::send, false, 1, 0, 1, 0, 0, buffer},                   // round 0
      {kind::add, true, 1, 0, 1, 0, 0, buffer, buffer, scratch},    // rank 1 reads the buffer meanwhile
      {kind::copy, false, 0, 0, 1, 0, 1, scratch, buffer, buffer},  // home, when rank 1 is through round 0
  };
  const series<operation> expected_of_four = {
      {kind::send, false, 3, 0, 1, 0, 0, buffer},                  // round 0
      {kind::add, false, 3, 0, 1, 0, 0, buffer, buffer, scratch},  //
      {kind::send, false, 0, 0, 1, 0, 0, scratch},                 // round 1
      {kind::add, true, 0, 0, 1, 0, 1, scratch, scratch, buffer},  // when rank 3 is through round 0
  };
  CHECK(two.operations == expected_of_two);
  CHECK(two.hazards == series<hazard>{{1, 0}});
  CHECK(two.readers == series<hazard>{{1, 0}});
  CHECK((two.rounds() == 2 && two.scratch_first == 0 && two.scratch_count == 1));
  CHECK(four.operations == expected_of_four);
  CHECK(four.hazards == series<hazard>{{3, 0}});
  CHECK(four.readers == series<hazard>{{0, 1}, {3, 0}});
  CHECK(four.rounds() == 2);
}

TEST_CASE("strategies that send and write a chunk in one round obey the laws") {
  laws::strategy_laws(laws::everyone_joins{}, 7);
  laws::strategy_laws(chunk_by_chunk<laws::everyone_joins>{{}}, 4);
  laws::strategy_laws(laws::handed_down{}, 7);
  laws::strategy_laws(laws::added_beside_a_send{}, 3);
  laws::strategy_laws(wasteful{}, 3);
}

TEST_CASE("chunks that change places beside chunks that don't are put together only where they lie alike") {
  laws::strategy_laws(laws::beside<ring, recursive_doubling>{}, 9);
  laws::strategy_laws(laws::beside<recursive_doubling, halving_doubling>{}, 9);
  laws::strategy_laws(laws::beside<laws::everyone_joins, native>{}, 5);
  laws::strategy_laws(laws::beside<native, laws::everyone_joins>{}, 5);
  laws::strategy_laws(laws::beside<laws::handed_down, chunk_by_chunk<laws::everyone_joins>>{}, 5);
  // In round 0 ranks 0 and 1 swap chunks 0 and 1, then 0 and 2: side by side, but chunk 0 goes to scratch.
  const program p = compile(laws::beside<recursive_doubling, halving_doubling>{}, 0, 2);
  std::vector<std::vector<int>> added;
  for (const operation& op : p.round(0))
    if (op.what == kind::add) added.push_back({op.first, op.count, static_cast<int>(op.to)});
  CHECK(added == std::vector<std::vector<int>>{{0, 1, 1}, {1, 1, 0}});
}

TEST_CASE("of several additions into a chunk that is sent, the first leaves what the others add to") {
  const program p = compile(laws::added_beside_a_send{}, 0, 3);
  series<operation> of_chunk_1;
  for (const operation& op : p.round(0))
    if (op.what == kind::add && op.first + op.count == 2) of_chunk_1.push_back(op);
  REQUIRE(of_chunk_1.size() == 2);
  CHECK((of_chunk_1[0].own == region::buffer && of_chunk_1[0].to == region::scratch && !of_chunk_1[0].divides));
  CHECK((of_chunk_1[1].own == region::scratch && of_chunk_1[1].to == region::scratch && of_chunk_1[1].divides));
}

TEST_CASE("programs of 200 ranks fit together") {
  const auto programs = laws::compile_all(halving_doubling{}, 200);
  const auto input = laws::random_buffers(200, 131, false, 4);
  const auto result = laws::played(programs, input, 200);
  const laws::buffer expected = laws::tree_mean(input, 200);
  bool right = true;
  for (const auto& b : result) right = right && laws::same_bits(b, expected);
  CHECK(right);
}
