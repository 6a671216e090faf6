// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0
#include "gradsync/trace/recorder.hpp"

#include <doctest/doctest.h>

using namespace gradsync;
using namespace std::chrono_literals;

TEST_CASE("a new recorder is empty and knows its rank") {
  const recorder r(3);
  CHECK(r.rank() == 3);
  CHECK(r.steps().empty());
  CHECK(r.dropped() == 0);
}

TEST_CASE("updates are kept in order, as they were") {
  recorder r(0);
  for (int i = 0; i < 3; ++i) {
    step_times step{.step = 10 + i, .begin = time_point(1s * i), .finish = time_point(2s * i), .end = time_point(3s * i), .buckets = {}};
    step.buckets.resize(2);
    step.buckets[1].exposed = 5ms * i;
    r.record(step);
  }
  REQUIRE(r.steps().size() == 3);
  for (int i = 0; i < 3; ++i) {
    const step_times& step = r.steps()[static_cast<std::size_t>(i)];
    CHECK(step.step == 10 + i);
    CHECK((step.begin == time_point(1s * i) && step.finish == time_point(2s * i) && step.end == time_point(3s * i)));
    CHECK((step.buckets.size() == 2 && step.buckets[1].exposed == 5ms * i && step.buckets[0].busy == 0ms));
  }
}

TEST_CASE("what comes after the limit is counted, not kept") {
  recorder r(0, 2), none(0, 0);
  for (int i = 0; i < 5; ++i) {
    r.record({.step = i, .begin = {}, .finish = {}, .end = {}, .buckets = {}});
    none.record({.step = i, .begin = {}, .finish = {}, .end = {}, .buckets = {}});
  }
  CHECK(r.steps().size() == 2);
  CHECK(r.steps().back().step == 1);
  CHECK(r.dropped() == 3);
  CHECK((none.steps().empty() && none.dropped() == 5));
}

TEST_CASE("of buckets that a thread drove one after the other, what finish() waited for is exposed") {
  const auto at = [](int us) { return time_point{} + std::chrono::microseconds(us); };
  const auto took = [](int us) { return std::chrono::nanoseconds(1000 * us); };
  series<bucket_times> all(3);
  all[0].ready = at(10), all[0].end = at(30);  // done before finish() is called
  all[1].ready = at(20), all[1].end = at(50);  // its turn comes at 30, and finish() at 40
  all[2].ready = at(60), all[2].end = at(65);
  settle(all, at(40));
  CHECK((all[0].busy == took(20) && all[0].exposed == took(0)));
  CHECK((all[1].busy == took(20) && all[1].exposed == took(10)));
  CHECK((all[2].busy == took(5) && all[2].exposed == took(5)));
  all[2].restart();
  CHECK((all[2].busy == took(0) && all[2].exposed == took(0) && all[2].end == time_point{} && all[2].ready != time_point{}));
}
