// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0
#include "gradsync/comm/postings.hpp"

#include <doctest/doctest.h>

#include <deque>
#include <memory>
#include <thread>

#include "gradsync/comm/peers.hpp"

using namespace gradsync;

namespace {

// Three ranks, seen from each; rank 2 is not there before it is made.
struct table {
  table() {
    add();
    add();
  }
  detail::peers& add() {
    seen_from.emplace_back(outcome, shared, static_cast<int>(seen_from.size()), 3);
    seen_from.back().make_slots(slots);
    return seen_from.back();
  }
  detail::slot<flag_scope::threads>& slot(std::size_t rank, std::size_t i) { return shared->lanes[rank].slots[i]; }
  contribution lend(double weight = 1) const { return {.buffer = {dtype::float32, {&all, 1}}, .weight = weight}; }

  static constexpr std::uint32_t slots = 4;
  std::shared_ptr<detail::failure> outcome = std::make_shared<detail::failure>(3, std::chrono::steady_clock::now);
  std::shared_ptr<detail::crossing> shared = std::make_shared<detail::crossing>(3);
  std::deque<detail::peers> seen_from;
  std::byte memory[40] = {};
  extent all{memory, 0, 10};
};

const void* line_of(const void* at) { return reinterpret_cast<const void*>(reinterpret_cast<std::uintptr_t>(at) / 64); }

}  // namespace

TEST_CASE("the flag and all that a peer has to know first lie on one cache line, that of another slot nowhere near") {
  const series<detail::slot<flag_scope::threads>> ring(2);
  const auto& s = ring[0];
  for (const void* part : {static_cast<const void*>(&s.call), static_cast<const void*>(&s.type), static_cast<const void*>(&s.has_scratch),
                           static_cast<const void*>(&s.count), static_cast<const void*>(&s.extents), static_cast<const void*>(&s.at),
                           static_cast<const void*>(&s.scale), static_cast<const void*>(&s.weight)})
    CHECK(line_of(part) == line_of(&s.posted));
  CHECK(line_of(&s.scratch) != line_of(&s.posted));
  CHECK((line_of(s.carried) != line_of(&s.posted) && reinterpret_cast<std::uintptr_t>(s.carried) % 64 == 0));
  CHECK(sizeof s.carried == detail::carried_bytes);
  CHECK(reinterpret_cast<std::uintptr_t>(&ring[1]) % 128 == 0);
}

TEST_CASE("what a peer has posted is copied by who sees it first, and not looked at again") {
  table t;
  detail::peers& me = t.seen_from[0];
  me.post({}, t.lend(), {});
  t.seen_from[1].post({}, t.lend(3), {});
  REQUIRE(me.posted(1, {}, deadline::poll()));
  auto& slot = t.slot(1, 0);
  slot.at = 0, slot.extents = 7, slot.count = 11, slot.call = 5, slot.weight = 100;
  CHECK(me.posted(1, {}, deadline::poll()));
  const detail::posting& seen = me.posted_by(1, {});
  CHECK((seen.count == 10 && seen.lent.weight == 3 && seen.lent.call == 0));
  REQUIRE(me.lent(1, {}).extents.size() == 1);
  const extent& only = me.lent(1, {}).extents[0];
  CHECK((only.data == t.memory && only.first == 0 && only.count == 10));
  CHECK(&only != &t.all);
}

TEST_CASE("a list of several extents stays where it is, and so does no extent at all") {
  table t;
  const extent parts[] = {{t.memory, 0, 4}, {t.memory + 20, 4, 6}};
  for (detail::peers& one : t.seen_from) one.post({}, {.buffer = {dtype::float32, {parts, 2}}}, {});
  for (detail::peers& one : t.seen_from) one.post({.sequence = 1}, {.buffer = {dtype::float32, {}}}, {});
  REQUIRE(t.seen_from[0].posted(1, {}, deadline::poll()));
  REQUIRE(t.seen_from[0].posted(1, {.sequence = 1}, deadline::poll()));
  CHECK(t.seen_from[0].lent(1, {}).extents.data() == parts);
  CHECK(t.seen_from[0].lent(1, {}).extents.size() == 2);
  CHECK(t.seen_from[0].lent(1, {.sequence = 1}).extents.empty());
}

TEST_CASE("few elements come along, in their order, and where they came from is not looked at") {
  table t;
  for (std::size_t i = 0; i < sizeof t.memory; ++i) t.memory[i] = static_cast<std::byte>(i);
  const extent parts[] = {{t.memory + 20, 0, 4}, {t.memory, 4, 3}};
  t.seen_from[0].post({}, t.lend(), {}, true);
  t.seen_from[1].post({}, {.buffer = {dtype::float32, {parts, 2}}, .weight = 3}, {}, true);
  CHECK_THROWS_AS(t.seen_from[0].posted(1, {}, deadline::poll()), mismatch_error);  // 10 and 7
  t.seen_from[0].post({.sequence = 1}, {.buffer = {dtype::float32, {parts, 2}}}, {}, true);
  t.seen_from[1].post({.sequence = 1}, {.buffer = {dtype::float32, {parts, 2}}, .weight = 3}, {}, true);
  REQUIRE(t.seen_from[0].posted(1, {.sequence = 1}, deadline::poll()));
  const std::byte* const came = t.seen_from[0].elements_of(1, {.sequence = 1});
  for (std::size_t i = 0; i < 16; ++i) CHECK(came[i] == t.memory[20 + i]);
  for (std::size_t i = 16; i < 28; ++i) CHECK(came[i] == t.memory[i - 16]);
  const detail::posting& seen = t.seen_from[0].posted_by(1, {.sequence = 1});
  CHECK((seen.carried && seen.count == 7 && seen.lent.weight == 3 && seen.lent.buffer.extents.empty()));
  CHECK(t.seen_from[0].posted_by(0, {.sequence = 1}).lent.buffer.extents.size() == 2);
}

TEST_CASE("a peer whose elements come along, where others lend theirs, runs another strategy") {
  table t;
  t.seen_from[0].post({}, t.lend(), {});
  t.seen_from[1].post({}, t.lend(), {}, true);
  CHECK_THROWS_WITH_AS(t.seen_from[0].posted(1, {}, deadline::poll()),
                       "gradsync[rank 0]: rank 1 does not run the strategy of this one; give every rank the same strategy", mismatch_error);
  CHECK_THROWS_AS(t.seen_from[1].posted(0, {}, deadline::poll()), mismatch_error);
}

TEST_CASE("scratch is told where there is some") {
  table t;
  std::byte beside[16];
  for (const std::uint32_t sequence : {0u, 1u, 4u}) {  // the slot of the first and the last is one
    const extent scratch = sequence == 0 ? extent{beside, 6, 4} : extent{};
    for (detail::peers& one : t.seen_from) one.post({.sequence = sequence}, t.lend(), scratch);
    REQUIRE(t.seen_from[0].posted(1, {.sequence = sequence}, deadline::poll()));
    const extent& seen = t.seen_from[0].posted_by(1, {.sequence = sequence}).scratch;
    CHECK((seen.data == scratch.data && seen.first == scratch.first && seen.count == scratch.count));
  }
}

TEST_CASE("a peer that has not opened the channel has not posted either, and is waited for as others are") {
  table t;
  detail::peers& me = t.seen_from[0];
  me.post({}, t.lend(), {});
  CHECK_FALSE(me.has_posted(2));
  CHECK_FALSE(me.posted(2, {}, deadline::poll()));
  CHECK_THROWS_WITH_AS(me.posted(2, {}, deadline::after(std::chrono::nanoseconds(1))),
                       "gradsync[rank 0]: rank 2 did not come before the deadline of 0 us", timeout_error);
  std::thread late([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));  // longer than the other one spins
    detail::peers other(t.outcome, t.shared, 2, 3);
    other.make_slots(2);  // fewer than others have
    other.post({}, t.lend(), {});
  });
  CHECK(me.posted(2, {}, deadline::never()));
  late.join();
  CHECK(me.has_posted(2));

  table left;
  left.outcome->leave(2);
  CHECK_THROWS_WITH_AS(left.seen_from[0].posted(2, {}, deadline::poll()),
                       "gradsync[rank 0]: rank 2 has returned from its function and takes no part any more", transport_error);
}

TEST_CASE("weights of ranks that were not asked for are read where they are") {
  table t;
  detail::peers& third = t.add();
  for (int rank = 0; rank < 3; ++rank) t.seen_from[static_cast<std::size_t>(rank)].post({}, t.lend(1 << rank), {});
  REQUIRE(third.posted(1, {}, deadline::poll()));
  t.slot(1, 0).weight = 100;
  CHECK(third.total_weight({}) == 7);
  t.slot(0, 0).weight = 100;
  CHECK(third.total_weight({}) == 106);
}

TEST_CASE("slots go on where the sequence wraps around") {
  table t;
  constexpr std::uint32_t begin = 0xfffffffau;
  for (std::size_t rank : {0u, 1u})
    for (std::uint32_t i = 0; i < table::slots; ++i) t.slot(rank, (begin + i) % table::slots).posted.raise(begin + i + 1 - table::slots);
  for (std::uint32_t sequence = begin; sequence != 8; ++sequence) {
    t.seen_from[0].post({.sequence = sequence}, t.lend(), {});
    CHECK_FALSE(t.seen_from[0].posted(1, {.sequence = sequence}, deadline::poll()));
    t.seen_from[1].post({.sequence = sequence}, t.lend(sequence % 7), {});
    CHECK(t.seen_from[0].posted(1, {.sequence = sequence}, deadline::poll()));
    CHECK(t.seen_from[0].posted_by(1, {.sequence = sequence}).lent.weight == sequence % 7);
    CHECK(t.seen_from[0].has_posted(1));
  }
}
