// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

#include "gradsync/core/deadline.hpp"

#include <doctest/doctest.h>

using namespace gradsync;
using namespace std::chrono_literals;

namespace {

std::chrono::steady_clock::time_point now_here{};

std::chrono::steady_clock::time_point test_clock() { return now_here; }

}  // namespace

TEST_CASE("a deadline after a time passes at that time, not before") {
  now_here = std::chrono::steady_clock::time_point{} + 100s;
  const deadline limit = deadline::after(2s, test_clock);
  CHECK_FALSE(limit.polling());
  CHECK_FALSE(limit.passed(test_clock));
  now_here += 2s - 1ns;
  CHECK_FALSE(limit.passed(test_clock));
  now_here += 1ns;
  CHECK(limit.passed(test_clock));
  now_here += 1h;
  CHECK(limit.passed(test_clock));
}

TEST_CASE("a deadline within a time begins to count when the clock is first looked at") {
  now_here = std::chrono::steady_clock::time_point{} + 100s;
  const deadline limit = deadline::within(2s);
  CHECK_FALSE(limit.polling());
  now_here += 1h;
  CHECK_FALSE(limit.passed(test_clock));
  now_here += 2s - 1ns;
  CHECK_FALSE(limit.passed(test_clock));
  now_here += 1ns;
  CHECK(limit.passed(test_clock));
  CHECK(limit.text() == "2000 ms");
  CHECK(deadline::within(0ns).passed(test_clock));
  const deadline endless = deadline::within(std::chrono::nanoseconds::max());
  CHECK_FALSE(endless.passed(test_clock));
  now_here = std::chrono::steady_clock::time_point::max();
  CHECK_FALSE(endless.passed(test_clock));
}

TEST_CASE("a deadline after no time has passed at once") {
  now_here = std::chrono::steady_clock::time_point{} + 5s;
  CHECK(deadline::after(0ns, test_clock).passed(test_clock));
}

TEST_CASE("never does not pass, however late it is") {
  now_here = std::chrono::steady_clock::time_point::max();
  CHECK_FALSE(deadline::never().passed(test_clock));
  CHECK_FALSE(deadline::never().polling());
}

TEST_CASE("polling is no deadline: it asks once, whatever the time") {
  CHECK(deadline::poll().polling());
  CHECK(deadline{}.polling());
  now_here = std::chrono::steady_clock::time_point::max();
  CHECK_FALSE(deadline::poll().passed(test_clock));
}

TEST_CASE("the default clock is the steady one") {
  CHECK(deadline::after(0ns).passed(std::chrono::steady_clock::now));
  CHECK_FALSE(deadline::after(1h).passed(std::chrono::steady_clock::now));
}

TEST_CASE("a limit is said in the unit in which it reads best") {
  CHECK(deadline::after(250us).text() == "250 us");
  CHECK(deadline::after(50ms).text() == "50 ms");
  CHECK(deadline::after(9s).text() == "9000 ms");
  CHECK(deadline::after(10min).text() == "600 s");
}
