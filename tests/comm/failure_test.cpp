// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0
#include "gradsync/comm/failure.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <stdexcept>
#include <thread>

#if defined(__linux__)
#include <pthread.h>  // an end of a thread that is no exception
#endif

#include "gradsync/comm/threads.hpp"
#include "tests/laws/transport_laws.hpp"

using namespace gradsync;
using namespace std::chrono_literals;

namespace {

const auto run_threads = [](int size, auto body) { thread_group(size).run(body); };

std::chrono::steady_clock::time_point noon() { return std::chrono::steady_clock::time_point{} + 12h; }

std::exception_ptr cause(const char* text) { return std::make_exception_ptr(std::runtime_error(text)); }

}  // namespace

TEST_CASE("threads obey the laws of failure") { laws::failure_laws(run_threads); }

TEST_CASE("nothing has failed, and nobody has gone, at first; time is that of the group's clock") {
  detail::failure f(3, noon);
  CHECK_FALSE(f.failed());
  CHECK_FALSE((f.gone(0) || f.gone(1) || f.gone(2)));
  CHECK(f.now() == noon());
  CHECK(f.passed(deadline::after(0ns, noon)));
  CHECK_FALSE(f.passed(deadline::after(1ns, noon)));
  CHECK_FALSE(f.passed(deadline::never()));
  f.leave(1);
  CHECK((!f.gone(0) && f.gone(1) && !f.gone(2)));
  CHECK_FALSE(f.failed());
}

TEST_CASE("the first cause stays, and is quoted to each rank in its own name") {
  detail::failure f(3, noon);
  f.fail(2, cause("disk full"));
  f.fail(0, cause("later"));
  f.abandon(1, cause("later"));
  f.conclude(2, cause("later"));
  CHECK(f.failed());
  CHECK_THROWS_WITH_AS(std::rethrow_exception(f.cause()), "disk full", std::runtime_error);
  CHECK_THROWS_WITH_AS(f.report(1), "gradsync[rank 1]: rank 2 failed: disk full", transport_error);
  CHECK_THROWS_WITH_AS(f.report(2), "gradsync[rank 2]: rank 2 failed: disk full", transport_error);
}

TEST_CASE("an abandoning rank's own conclusion replaces what it said at first; another rank's does not") {
  detail::failure f(3, noon);
  f.abandon(1, cause("torn down"));
  CHECK(f.failed());
  f.conclude(0, cause("of another"));
  f.fail(1, cause("while it unwinds"));
  CHECK_THROWS_WITH_AS(std::rethrow_exception(f.cause()), "torn down", std::runtime_error);
  f.conclude(1, cause("disk full"));
  f.conclude(1, cause("disk full again"));
  CHECK_THROWS_WITH_AS(f.report(0), "gradsync[rank 0]: rank 1 failed: disk full", transport_error);
}

TEST_CASE("who is told of an abandoned update waits for the real cause, or for the rank to leave, but not for ever") {
  for (const bool concludes : {true, false}) {
    detail::failure f(2, noon);
    f.abandon(1, cause("torn down"));
    std::thread unwinding([&] {
      std::this_thread::sleep_for(20ms);
      if (concludes) f.conclude(1, cause("disk full"));
      f.leave(1);
    });
    const auto begin = std::chrono::steady_clock::now();
    CHECK_THROWS_WITH_AS(f.report(0),
                         concludes ? "gradsync[rank 0]: rank 1 failed: disk full" : "gradsync[rank 0]: rank 1 failed: torn down",
                         transport_error);
    CHECK(std::chrono::steady_clock::now() - begin >= 15ms);
    unwinding.join();
  }
  detail::failure f(2, noon);
  f.abandon(1, cause("torn down"));
  CHECK_THROWS_WITH_AS(f.report(1), "gradsync[rank 1]: rank 1 failed: torn down", transport_error);  // at once: it is its own
  CHECK_THROWS_WITH_AS(f.report(0), "gradsync[rank 0]: rank 1 failed: torn down", transport_error);  // after a second
}

TEST_CASE("ranks are told of a mismatch by a mismatch_error") {
  detail::failure f(2, noon);
  f.fail(0, std::make_exception_ptr(mismatch_error("rank 1 has 3 elements", {.rank = 0})));
  CHECK_THROWS_WITH_AS(f.report(1), "gradsync[rank 1]: rank 0 failed: gradsync[rank 0]: rank 1 has 3 elements", mismatch_error);
}

TEST_CASE("a sleeper is known as one until its wait ends, by a failure or by success") {
  for (const bool fails : {true, false}) {
    detail::failure f(3, noon);
    f.leave(1);
    flag counter;
    bool reached = false;
    std::thread sleeper([&] {
      detail::failure::long_wait wait(f, 0, 1, counter, 1);
      reached = counter.wait(1, [&] {
        wait.list();
        return !f.failed();
      });
    });
    while (!f.others_wait(2)) std::this_thread::yield();
    CHECK_FALSE(f.others_wait(0));  // rank 2 does not
    if (fails) f.fail(2, cause("disk full"));
    else counter.raise(1);
    sleeper.join();
    CHECK(reached == !fails);
    CHECK_FALSE(f.others_wait(2));
  }
}

TEST_CASE("a part of a group sees the outcome of the whole with numbers of its own") {
  detail::failure whole(6, noon);
  const detail::failure part(whole, std::vector<int>{5, 1, 3}), half(part, std::vector<int>{2, 0});
  CHECK((half.whole(0) == 3 && half.whole(1) == 5));
  CHECK(part.name(0) == "rank 0 (rank 5 of the whole group)");
  CHECK(part.name(1) == "rank 1");
  CHECK(part.at(1).whole == -1);
  CHECK((half.at(0).rank == 0 && half.at(0).whole == 3));
  CHECK(part.now() == noon());
  whole.leave(3);
  CHECK((part.gone(2) && half.gone(0) && !half.gone(1)));

  detail::failure(part).fail(0, cause("disk full"));
  CHECK((whole.failed() && half.failed()));
  CHECK_THROWS_WITH_AS(whole.report(0), "gradsync[rank 0]: rank 5 failed: disk full", transport_error);
  CHECK_THROWS_WITH_AS(half.report(0), "gradsync[rank 0 (rank 3 of the whole group)]: rank 1 (rank 5 of the whole group) failed: disk full",
                       transport_error);
  const detail::failure others(whole, std::vector<int>{4, 2});
  CHECK_THROWS_WITH_AS(others.report(0), "gradsync[rank 0 (rank 4 of the whole group)]: rank 5 of the whole group failed: disk full",
                       transport_error);
}

#if defined(__linux__)
TEST_CASE("a rank whose thread ends from within is named") {
  CHECK_THROWS_WITH_AS(thread_group(3).run([](auto& comm) {
    comm.barrier();
    if (comm.rank() == 1) pthread_exit(nullptr);
    CHECK_THROWS_WITH_AS(comm.barrier(),
                         doctest::Contains("rank 1 failed: gradsync: its thread was ended from within, as pthread_exit() does"),
                         transport_error);
  }),
                       doctest::Contains("as pthread_exit() does"), transport_error);
}
#endif

TEST_CASE("of several exceptions the first is thrown, and the others' ranks are told of it") {
  for (int repeat = 0; repeat < 20; ++repeat) {
    std::atomic<bool> thrown{false};
    CHECK_THROWS_WITH_AS(thread_group(4).run([&](auto& comm) {
      comm.barrier();
      if (comm.rank() == 2) {
        comm.fail(std::make_exception_ptr(std::runtime_error("first")));
        thrown = true;
        throw std::runtime_error("second");
      }
      while (!thrown) std::this_thread::yield();
      if (comm.rank() == 3) throw std::runtime_error("third");
      CHECK_THROWS_WITH_AS(comm.barrier(), doctest::Contains("rank 2 failed: first"), transport_error);
    }),
                         "first", std::runtime_error);
  }
}

TEST_CASE("an unwinding rank gives a cause for the time being, and the real one in the end") {
  CHECK_THROWS_WITH_AS(thread_group(3).run([](auto& comm) {
    comm.barrier();
    if (comm.rank() == 1) {
      comm.abandon(std::make_exception_ptr(transport_error("torn down")));
      std::this_thread::sleep_for(50ms);
      throw std::runtime_error("disk full");
    }
    CHECK_THROWS_WITH_AS(comm.barrier(), doctest::Contains("rank 1 failed: disk full"), transport_error);
  }),
                       "disk full", std::runtime_error);
}
