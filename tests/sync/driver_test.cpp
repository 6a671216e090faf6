// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

#include "gradsync/sync/driver.hpp"

#include <doctest/doctest.h>

#include "gradsync/comm/threads.hpp"

using namespace gradsync;

namespace {

// A transport that may belong to its rank's own thread.
struct shy : thread_communicator {
  shy(thread_communicator&& inner, bool allowed) : thread_communicator(std::move(inner)), allowed_(allowed) {}
  bool allows_driver_thread() const { return allowed_; }
  bool allowed_;
};

}  // namespace

TEST_CASE("a rank alone, and one that drives at its marks, have no driver") {
  thread_group(1).run([](auto& comm) {
    for (const progress how : {progress::automatic, progress::at_marks, progress::thread}) CHECK_FALSE(wants_driver(comm, how));
  });
  thread_group(2).run([](auto& comm) {
    CHECK_FALSE(wants_driver(comm, progress::at_marks));
    CHECK(wants_driver(comm, progress::thread));
  });
}

TEST_CASE("left to itself, a rank has a driver where two threads of each rank find a processor") {
  for (const int size : {2, 3, usable_cpus() / 2, usable_cpus() / 2 + 1})
    if (size > 1)
      thread_group(size).run([size](auto& comm) { CHECK(wants_driver(comm, progress::automatic) == (2 * size <= usable_cpus())); });
}

TEST_CASE("where only the rank's own thread may use a transport, a driver that is asked for is refused") {
  thread_group(2).run([](auto& comm) {
    for (const bool allowed : {true, false}) {
      const shy own(comm.split(0), allowed);
      CHECK(wants_driver(own, progress::automatic) == (allowed && 4 <= usable_cpus()));
      CHECK_FALSE(wants_driver(own, progress::at_marks));
      const synchronizer_options plain, asking{.progress = progress::thread};
      CHECK(&expect_driver(own, plain) == &plain);
      if (allowed) CHECK(&expect_driver(own, asking) == &asking);
      else
        CHECK_THROWS_WITH_AS(expect_driver(own, asking),
                             doctest::Contains("progress::thread is not to be had here: only the rank's own thread may use its transport"),
                             usage_error);
    }
  });
}
