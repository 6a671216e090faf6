// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0
#include "gradsync/comm/peers.hpp"

#include <doctest/doctest.h>

#include <stdexcept>
#include <vector>

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
      lane(rank).posts.resize(2);
    }
  }
  detail::lane& lane(int rank) { return shared->lanes[static_cast<std::size_t>(rank)]; }
  void post(int rank, std::size_t count, dtype type = dtype::float32, double weight = 1) {
    const std::uint32_t sequence = lane(rank).posted.value();
    lane(rank).posts[sequence % 2] = {{.buffer = {type, {}}, .scale = 1, .weight = weight}, count};
    lane(rank).posted.raise(sequence + 1);
  }

  std::shared_ptr<detail::failure> outcome = std::make_shared<detail::failure>(4, test_clock);
  std::shared_ptr<detail::crossing> shared = std::make_shared<detail::crossing>(4);
  std::vector<detail::peers> seen_from;
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
  const detail::peers& me = t.seen_from[2];
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
  table simple, chain, circle, round_about;
  CHECK(blamed(simple) == "rank 1 did not come before the deadline of 60 s");
  CHECK(simple.lane(0).waits_for == 1);  // for whoever waits for this rank
  chain.lane(1).waits_for = 3;
  chain.lane(3).waits_for = 2;
  CHECK(blamed(chain) == "rank 2 did not come before the deadline of 60 s");
  circle.lane(1).waits_for = 0;  // as it would for the next collective
  CHECK(blamed(circle, 250ms) == "rank 1 did not come before the deadline of 250 ms");
  round_about.lane(1).waits_for = 2;
  round_about.lane(2).waits_for = 1;
  CHECK(blamed(round_about).find("did not come before the deadline") != std::string::npos);
}

TEST_CASE("a wait that succeeds blames nobody later") {
  table t;
  std::thread peer([&] {
    std::this_thread::sleep_for(5ms);
    t.lane(1).progress.raise(1);
  });
  CHECK(t.seen_from[0].passed(1, 1, deadline::never()));
  CHECK(t.lane(0).waits_for == -1);
  peer.join();
}

TEST_CASE("a pass is seen by others while it lasts, and is refused after a failure") {
  table t;
  {
    const detail::peers::pass inside(t.seen_from[1]);
    CHECK(t.lane(1).inside != 0);
  }
  CHECK(t.lane(1).inside == 0);
  t.outcome->fail(2, std::make_exception_ptr(std::runtime_error("disk full")));
  CHECK_THROWS_AS(detail::peers::pass(t.seen_from[1]), transport_error);
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
