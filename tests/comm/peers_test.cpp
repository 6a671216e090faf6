// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0
#include "gradsync/comm/peers.hpp"

#include <doctest/doctest.h>

#include <stdexcept>
#include <vector>

#include "gradsync/comm/pass.hpp"

using namespace gradsync;
using namespace std::chrono_literals;

namespace {

std::atomic<std::int64_t> milliseconds_passed{0};
std::chrono::steady_clock::time_point test_clock() {
  return std::chrono::steady_clock::time_point{} + std::chrono::milliseconds(milliseconds_passed.load());
}

// Four ranks, seen from each.
struct table {
  table() {
    milliseconds_passed = 0;
    for (int rank = 0; rank < 4; ++rank) {
      seen_from.emplace_back(outcome, shared, rank, 4);
      seen_from.back().make_slots(2);
    }
  }
  detail::lane& lane(int rank) { return shared->lanes[static_cast<std::size_t>(rank)]; }
  void post(int rank, std::size_t count, dtype type = dtype::float32, double weight = 1) {
    const extent all{memory, 0, count};
    seen_from[static_cast<std::size_t>(rank)].post({.sequence = sequences[rank]++}, {.buffer = {type, {&all, 1}}, .weight = weight}, {});
  }

  std::shared_ptr<detail::failure> outcome = std::make_shared<detail::failure>(4, test_clock);
  std::shared_ptr<detail::crossing> shared = std::make_shared<detail::crossing>(4);
  std::vector<detail::peers> seen_from;
  std::uint32_t sequences[4] = {};
  std::byte memory[1] = {};
};

// A thread of one rank that sleeps until another's progress is 100.
struct asleep {
  asleep(table& t, int rank, int peer) : wait(*t.outcome, rank, peer, t.lane(peer).progress, 100) { wait.list(); }
  detail::failure::long_wait wait;
};

// The message that a wait of rank 0 for rank 1 ends with, when its deadline is this long and over.
std::string blamed(table& t, std::chrono::milliseconds limit = 1min) {
  const deadline until = deadline::after(limit, test_clock);
  milliseconds_passed += limit.count() - 1;
  std::thread clock([&] {
    std::this_thread::sleep_for(2ms);
    ++milliseconds_passed;
  });
  std::string message;
  try {
    t.seen_from[0].passed(1, 1, until);
  } catch (const timeout_error& e) {
    CHECK(e.where().rank == 0);
    message = e.message();
  }
  clock.join();
  return message;
}

}  // namespace

TEST_CASE("a peer has posted when its sequence says so, and passed when its progress does") {
  table t;
  detail::peers& me = t.seen_from[2];
  CHECK((me.rank() == 2 && me.size() == 4));
  CHECK(&me.mine() == &t.lane(2));
  t.post(2, 10);
  CHECK_FALSE(me.posted(3, {}, deadline::poll()));
  t.post(3, 10);
  CHECK(me.posted(3, {}, deadline::poll()));
  CHECK_FALSE(me.posted(3, {.sequence = 1}, deadline::poll()));
  CHECK_FALSE(me.passed(1, 5, deadline::poll()));
  t.lane(1).progress.raise(5);
  CHECK(me.passed(1, 5, deadline::never()));
  CHECK_FALSE(me.passed(1, 6, deadline::poll()));
}

TEST_CASE("a posting of another length or type is a mismatch that names both") {
  table t;
  t.post(0, 10);
  t.post(1, 11);
  t.post(2, 10, dtype::float64);
  CHECK_THROWS_WITH_AS(
      t.seen_from[0].posted(1, {}, deadline::poll()),
      "gradsync[rank 0]: rank 1 has 11 elements of float32, this rank has 10 elements of float32; make the same calls with the "
      "same lengths on every rank",
      mismatch_error);
  CHECK_THROWS_WITH_AS(
      t.seen_from[2].posted(0, {}, deadline::never()),
      "gradsync[rank 2]: rank 0 has 10 elements of float32, this rank has 10 elements of float64; make the same calls with the "
      "same lengths on every rank",
      mismatch_error);
}

TEST_CASE("weights are added in the canonical tree, of the collective that is asked for") {
  table t;
  const double weights[] = {0.1, 16777217, 0.7, 1e-9};
  for (int rank = 0; rank < 4; ++rank) t.post(rank, 1, dtype::float32, weights[rank]);
  for (int rank = 0; rank < 4; ++rank) t.post(rank, 1, dtype::float32, rank);
  CHECK(t.seen_from[3].total_weight({}) == (weights[0] + weights[1]) + (weights[2] + weights[3]));
  CHECK(t.seen_from[3].total_weight({.sequence = 1}) == 6);
}

TEST_CASE("a wait or a poll ends when the group has failed, or the peer has returned") {
  for (const deadline until : {deadline::poll(), deadline::never()}) {
    table failed, left;
    failed.outcome->fail(3, std::make_exception_ptr(std::runtime_error("disk full")));
    CHECK(failed.seen_from[0].failed());
    CHECK_THROWS_WITH_AS(failed.seen_from[0].passed(1, 1, until), "gradsync[rank 0]: rank 3 failed: disk full", transport_error);
    CHECK_THROWS_WITH_AS(failed.seen_from[2].report(), "gradsync[rank 2]: rank 3 failed: disk full", transport_error);
    left.lane(1).progress.raise(4);
    left.outcome->leave(1);
    CHECK(left.seen_from[0].passed(1, 4, until));  // what it has done is done
    CHECK_THROWS_WITH_AS(left.seen_from[0].passed(1, 5, until),
                         "gradsync[rank 0]: rank 1 has returned from its function and takes no part any more", transport_error);
    CHECK((until.polling() ? !left.seen_from[0].passed(2, 1, until) : true));
  }
}

TEST_CASE("the rank that all others wait for is to blame, not the one that waits for it") {
  table simple, chain, circle, round_about, gave_up, over;
  CHECK(blamed(simple) == "rank 1 did not come before the deadline of 60 s");
  {
    const asleep a(chain, 1, 3), b(chain, 3, 2);
    CHECK(blamed(chain) == "rank 2 did not come before the deadline of 60 s");
  }
  CHECK(blamed(chain) == "rank 2 did not come before the deadline of 60 s");  // their waits have ended in vain
  {
    const asleep a(circle, 1, 0);
    CHECK(blamed(circle, 250ms) ==
          "rank 1 did not come before the deadline of 250 ms; it waits for this rank: make the same calls in the same order on every rank");
  }
  {
    const asleep a(round_about, 1, 2), b(round_about, 2, 1);
    CHECK(blamed(round_about).find("did not come before the deadline") != std::string::npos);
  }
  const asleep a(over, 1, 3);
  over.lane(3).progress.raise(100);  // rank 1 has not noticed yet, but rank 3 has come
  CHECK(blamed(over) == "rank 1 did not come before the deadline of 60 s");
}

TEST_CASE("a wait that succeeds blames nobody later") {
  table t;
  t.outcome->leave(2);
  t.outcome->leave(3);
  std::thread peer([&] {
    while (!t.outcome->others_wait(1)) std::this_thread::yield();
    t.lane(1).progress.raise(1);
  });
  CHECK(t.seen_from[0].passed(1, 1, deadline::never()));
  CHECK_FALSE(t.outcome->others_wait(1));
  peer.join();
  const deadline until = deadline::after(1ms, test_clock);
  milliseconds_passed += 1;
  CHECK_THROWS_WITH_AS(t.seen_from[2].passed(0, 1, until), "gradsync[rank 2]: rank 0 did not come before the deadline of 1000 us",
                       timeout_error);
}

TEST_CASE("in a part of a group messages say both numbers of a rank") {
  table whole;
  auto outcome = std::make_shared<detail::failure>(*whole.outcome, series<int>{1, 3});
  auto shared = std::make_shared<detail::crossing>(2);
  detail::peers me(outcome, shared, 0, 2), other(outcome, shared, 1, 2);
  for (detail::peers* one : {&me, &other}) one->make_slots(2);
  me.post({}, {}, {});
  other.post({}, {.buffer = {}, .call = detail::call_of_barrier}, {});
  const std::string prefix = "gradsync[rank 0 (rank 1 of the whole group)]: rank 1 (rank 3 of the whole group) ";
  CHECK_THROWS_WITH_AS(
      me.posted(1, {}, deadline::poll()),
      (prefix + "calls barrier, this rank for the mean of gradients; make the same calls in the same order on every rank").c_str(),
      mismatch_error);
  const deadline until = deadline::after(0ms, test_clock);
  CHECK_THROWS_WITH_AS(me.passed(1, 1, until), (prefix + "did not come before the deadline of 0 us").c_str(), timeout_error);
  {
    const asleep elsewhere(whole, 3, 2);  // in another part
    CHECK_THROWS_WITH_AS(me.passed(1, 1, until), doctest::Contains("]: rank 2 of the whole group did not come"), timeout_error);
  }
  whole.outcome->leave(3);
  CHECK_THROWS_WITH_AS(me.passed(1, 1, deadline::never()), (prefix + "has returned from its function and takes no part any more").c_str(),
                       transport_error);
}

TEST_CASE("a pass is seen by others while it lasts, and is refused after a failure") {
  table t;
  {
    const detail::pass inside(t.seen_from[1]);
    CHECK(t.lane(1).inside != 0);
  }
  CHECK(t.lane(1).inside == 0);
  t.outcome->fail(2, std::make_exception_ptr(std::runtime_error("disk full")));
  CHECK_THROWS_AS(detail::pass(t.seen_from[1]), transport_error);
  CHECK(t.lane(1).inside == 0);
}

TEST_CASE("who leaves waits for its peers to leave its memory, longer than any deadline") {
  table t;
  t.lane(0).inside = 1;  // itself does not count
  t.lane(2).inside = 1;
  std::atomic<bool> left{false};
  std::thread leaving([&] {
    t.seen_from[0].leave();
    left = true;
  });
  std::this_thread::sleep_for(20ms);
  milliseconds_passed = 9000;
  std::this_thread::sleep_for(20ms);
  CHECK_FALSE(left);
  t.lane(2).inside = 0;
  leaving.join();
  CHECK(left);
}
