// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0
#include "gradsync/trace/metrics.hpp"

#include <doctest/doctest.h>

#include <initializer_list>

using namespace gradsync;
using namespace std::chrono_literals;

namespace {

step_times step_of(std::initializer_list<bucket_metrics> buckets) {
  step_times step;
  for (const bucket_metrics& b : buckets)
    step.buckets.push_back({.ready = {}, .start = {}, .end = {}, .busy = b.busy, .exposed = b.exposed});
  return step;
}

}  // namespace

TEST_CASE("nothing has been communicated at first") {
  const metrics none;
  CHECK(none.updates == 0);
  CHECK(none.busy() == 0ns);
  CHECK(none.exposed() == 0ns);
  CHECK(none.communication_seconds() == 0);
  CHECK(none.exposed_seconds() == 0);
}

TEST_CASE("updates add up, bucket by bucket") {
  metrics m;
  m.add(step_of({{10ms, 1ms}, {20ms, 2ms}}));
  m.add(step_of({{1ms, 0ms}, {2ms, 2ms}}));
  CHECK(m.updates == 2);
  REQUIRE(m.buckets.size() == 2);
  CHECK((m.buckets[0].busy == 11ms && m.buckets[0].exposed == 1ms));
  CHECK((m.buckets[1].busy == 22ms && m.buckets[1].exposed == 4ms));
  CHECK((m.busy() == 33ms && m.exposed() == 5ms));
  CHECK(m.communication_seconds() == doctest::Approx(0.033));
  CHECK(m.exposed_seconds() == doctest::Approx(0.005));
}

TEST_CASE("sums of days keep their nanoseconds") {
  metrics m;
  m.add(step_of({{24h * 300, 24h * 300}}));
  m.add(step_of({{1ns, 1ns}}));
  CHECK(m.busy() == 24h * 300 + 1ns);
}

TEST_CASE("the difference of two readings is what came between them") {
  metrics m;
  const metrics empty;
  m.add(step_of({{10ms, 1ms}, {20ms, 2ms}}));
  const metrics before = m;
  m.add(step_of({{5ms, 3ms}, {7ms, 4ms}}));
  const metrics between = m - before;
  CHECK(between.updates == 1);
  CHECK((between.buckets[0].busy == 5ms && between.buckets[0].exposed == 3ms));
  CHECK((between.buckets[1].busy == 7ms && between.buckets[1].exposed == 4ms));
  CHECK((m - empty).busy() == m.busy());
  CHECK(((m - m).updates == 0 && (m - m).busy() == 0ns));
  CHECK(before.updates == 1);
}

TEST_CASE("when buckets are planned anew, sums by bucket begin again and those over all go on") {
  metrics m;
  const metrics empty = m;
  m.add(step_of({{10ms, 1ms}, {20ms, 2ms}, {30ms, 3ms}}));
  const metrics first_plan = m;
  m.add(step_of({{1ms, 1ms}, {1ms, 1ms}, {1ms, 1ms}}));
  m.restart(1);
  CHECK((m.plans == 2 && m.updates == 2 && m.buckets.size() == 1 && m.buckets[0].busy == 0ns));
  CHECK((m.busy() == 63ms && m.exposed() == 9ms));
  m.add(step_of({{5ms, 4ms}}));
  const metrics second_plan = m;
  m.add(step_of({{6ms, 4ms}}));
  CHECK((m.buckets[0].busy == 11ms && m.busy() == 74ms && m.exposed() == 17ms));
  CHECK(((m - empty).busy() == 74ms && (m - empty).updates == 4));
  CHECK(((m - first_plan).busy() == 14ms && (m - first_plan).exposed() == 11ms));
  CHECK((m - first_plan).buckets[0].busy == 11ms);
  CHECK(((m - second_plan).busy() == 6ms && (m - second_plan).buckets[0].busy == 6ms));
}
