// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0
#include "gradsync/core/affinity.hpp"

#include <doctest/doctest.h>

#include <thread>

using namespace gradsync;

TEST_CASE("there is a CPU to run this on") {
  CHECK(usable_cpus() >= 1);
  CHECK(usable_cpus() <= static_cast<int>(std::thread::hardware_concurrency()));
}

#if defined(__linux__)
TEST_CASE("a mask of one CPU leaves one, whatever the machine has") {
  std::thread([] {  // a mask of its own, which ends with the thread
    cpu_set_t one;
    REQUIRE(sched_getaffinity(0, sizeof one, &one) == 0);
    int first = 0;
    while (!CPU_ISSET(first, &one)) ++first;
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    REQUIRE(sched_setaffinity(0, sizeof one, &one) == 0);
    CHECK(usable_cpus() == 1);
  })
      .join();
}
#endif
