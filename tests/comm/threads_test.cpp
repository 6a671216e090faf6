// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0
#include "gradsync/comm/threads.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <mutex>
#include <set>
#include <thread>

#include "tests/laws/transport_laws.hpp"

#if defined(__linux__)
#include "tests/comm/said_on_stderr.hpp"
#endif

using namespace gradsync;
using namespace std::chrono_literals;

namespace {

const auto run_threads = [](int size, auto body) { thread_group(size).run(body); };

// A clock that stands still until somebody turns it.
std::atomic<std::int64_t> seconds_passed{1000};
std::chrono::steady_clock::time_point test_clock() {
  return std::chrono::steady_clock::time_point{} + std::chrono::seconds(seconds_passed.load());
}

}  // namespace

TEST_CASE("threads obey the laws of a communicator") { laws::communicator_laws(run_threads); }

TEST_CASE("each rank has a thread and a communicator of its own, and run returns when all have returned") {
  thread_group ranks(5);
  CHECK(ranks.size() == 5);
  std::mutex mutex;
  std::set<std::thread::id> threads;
  std::set<int> numbers;
  int returned = 0;
  for (int repeat = 0; repeat < 3; ++repeat)
    ranks.run([&](thread_communicator& comm) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5 * comm.rank()));
      comm.barrier();
      const std::lock_guard hold(mutex);
      if (repeat == 0) threads.insert(std::this_thread::get_id());
      numbers.insert(comm.rank());
      ++returned;
    });
  CHECK(threads.size() == 5);
  CHECK(threads.count(std::this_thread::get_id()) == 0);
  CHECK(numbers == std::set<int>{0, 1, 2, 3, 4});
  CHECK(returned == 15);
}

TEST_CASE("nobody passes a barrier before everybody has come to it") {
  for (const int size : {1, 2, 4, 7}) {
    std::atomic<int> arrived{0}, early{0};
    thread_group(size).run([&](auto& comm) {
      for (int i = 1; i <= 200; ++i) {
        ++arrived;
        comm.barrier();
        if (arrived.load() < i * size) ++early;
        comm.barrier();
      }
    });
    CHECK(early == 0);
  }
}

TEST_CASE("groups run side by side and do not meet") {
  std::vector<std::thread> users;
  std::atomic<int> wrong{0};
  for (int user = 0; user < 3; ++user)
    users.emplace_back([user, &wrong] {
      thread_group(2 + user).run([&](auto& comm) {
        for (int i = 0; i < 100; ++i)
          if (comm.all_reduce(user) != user * comm.size()) ++wrong;
      });
    });
  for (std::thread& user : users) user.join();
  CHECK(wrong == 0);
}

TEST_CASE("a group needs a rank and a deadline that is longer than nothing") {
  CHECK_THROWS_WITH_AS(thread_group(0), "gradsync: a thread_group needs at least one rank, not 0", usage_error);
  CHECK_THROWS_WITH_AS(thread_group(-3), "gradsync: a thread_group needs at least one rank, not -3", usage_error);
  for (const auto limit : {0ns, -1ns})
    CHECK_THROWS_WITH_AS(thread_group(2, {.deadline = limit}), "gradsync: the deadline of a thread_group must be longer than nothing",
                         usage_error);
}

TEST_CASE("a wait ends at the group's deadline by the group's clock, not before, and names the late rank") {
  for (const int late : {0, 1, 2}) {
    seconds_passed = 1000;
    std::atomic<int> ended{0};
    CHECK_THROWS_AS(thread_group(3, {.deadline = 10min, .clock = test_clock}).run([&](auto& comm) {
      CHECK_FALSE(comm.limit().passed(test_clock));
      if (comm.rank() != late) try {
          comm.barrier();
          CHECK_MESSAGE(false, "nobody was waited for");
        } catch (const error& e) {
          const std::string name = "rank " + std::to_string(late) + " did not come before the deadline of 600 s";
          CHECK_MESSAGE(std::string(e.what()).find(name) != std::string::npos, e.what());
          CHECK(seconds_passed >= 1600);
          ++ended;
          throw;
        }
      seconds_passed = 1599;  // whoever began to wait at 1000 has a second left
      std::this_thread::sleep_for(60ms);
      CHECK(ended == 0);
      while (ended < 2) {
        ++seconds_passed;
        std::this_thread::sleep_for(1ms);
      }
      CHECK_THROWS_AS(comm.barrier(), transport_error);  // too late: the group has failed
    }),
                    timeout_error);
  }
}

TEST_CASE("a deadline on the real clock is kept") {
  const auto begin = std::chrono::steady_clock::now();
  std::atomic<bool> ended{false};
  CHECK_THROWS_WITH_AS(thread_group(2, {.deadline = 50ms}).run([&](auto& comm) {
    if (comm.rank() == 1) {
      while (!ended) std::this_thread::sleep_for(1ms);
      return;
    }
    try {
      comm.all_reduce(1);
    } catch (...) {
      ended = true;
      throw;
    }
  }),
                       "gradsync[rank 0]: rank 1 did not come before the deadline of 50 ms", timeout_error);
  CHECK(std::chrono::steady_clock::now() - begin >= 50ms);
}

TEST_CASE("the longest deadline there is lies in the future") {
  thread_group(2, {.deadline = std::chrono::nanoseconds::max()}).run([](auto& comm) {
    if (comm.rank() == 1) std::this_thread::sleep_for(30ms);
    CHECK(comm.all_reduce(1) == 2);
  });
}

#if defined(__linux__)
TEST_CASE("a rank that has not ended a deadline after the others failed is named on stderr, once") {
  const std::string said = tests::said_on_stderr([] {
    CHECK_THROWS_AS(thread_group(3, {.deadline = 100ms}).run([](auto& comm) {
      if (comm.rank() == 1) std::this_thread::sleep_for(800ms);
      comm.barrier();
    }),
                    error);
  });
  CHECK(said == "gradsync: the group has failed, and rank 1 has not ended; waiting for it\n");
}
#endif

TEST_CASE("ranks that make different calls of one length are told so") {
  auto expect = [](const char* text, auto&& call) {
    CHECK_THROWS_WITH_AS(thread_group(2).run([&](auto& comm) { call(comm); }), doctest::Contains(text), mismatch_error);
  };
  expect("all_reduce(max)", [](auto& comm) { comm.all_reduce(1, comm.rank() == 0 ? reduce_op::sum : reduce_op::max); });
  expect("broadcast from rank 0", [](auto& comm) { comm.rank() == 0 ? comm.broadcast(7, 0) : comm.all_reduce(5); });
  expect("broadcast from rank", [](auto& comm) { comm.broadcast(7, comm.rank()); });
}

TEST_CASE("a NaN is the maximum and the minimum, whichever rank has it") {
  for (int bad = 0; bad < 3; ++bad)
    thread_group(3).run([&](auto& comm) {
      const float mine = comm.rank() == bad ? std::numeric_limits<float>::quiet_NaN() : static_cast<float>(comm.rank());
      CHECK(std::isnan(comm.all_reduce(mine, reduce_op::max)));
      CHECK(std::isnan(comm.all_reduce(mine, reduce_op::min)));
      CHECK(std::isnan(comm.all_reduce(mine)));
    });
}
