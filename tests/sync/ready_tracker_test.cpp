// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

#include "gradsync/sync/ready_tracker.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace gradsync;

namespace {

series<parameter> some(const std::vector<std::size_t>& counts) {
  static int objects[3000];  // each alias needs addresses of its own
  series<parameter> all;
  for (std::size_t n : counts) {
    parameter p;
    p.count = n;
    int* at = objects + 3 * all.size();
    p.aliases.push_back({"p" + std::to_string(all.size()), at, at + 1, at + 2});
    all.push_back(p);
  }
  return all;
}

std::vector<std::size_t> full(ready_tracker& tracker) {
  std::vector<std::size_t> buckets;
  for (std::size_t b = 0; tracker.next_full(b);) buckets.push_back(b);
  return buckets;
}

}  // namespace

TEST_CASE("every address of every alias leads to its parameter, no other does") {
  series<parameter> all = some(std::vector<std::size_t>(1000, 1));
  const address_index index(all);
  for (std::size_t i = 0; i < all.size(); ++i) {
    CHECK(index.find(all[i].aliases[0].parameter) == i);
    CHECK(index.find(all[i].aliases[0].value) == i);
    CHECK(index.find(all[i].aliases[0].grad) == i);
  }
  int other = 0;
  CHECK(index.find(&other) == address_index::none);
  CHECK(index.find(nullptr) == address_index::none);
  CHECK(address_index({}).find(&other) == address_index::none);
}

TEST_CASE("buckets are given out once, in plan order, when they and all before them are full") {
  const series<parameter> all = some({1, 1, 1});
  const bucket_plan plan = make_plan(all, {.bucket_bytes = 0});  // bucket 0 holds p2
  ready_tracker tracker(plan, all);
  for (int repeat = 0; repeat < 2; ++repeat) {
    CHECK(full(tracker).empty());
    tracker.mark(1);
    CHECK(full(tracker).empty());
    tracker.mark(2);
    CHECK(full(tracker) == std::vector<std::size_t>{0, 1});
    CHECK_THROWS_WITH_AS(tracker.check_all_ready(), doctest::Contains("\"p0\": was not marked ready before finish()"), usage_error);
    tracker.mark(0);
    CHECK(full(tracker) == std::vector<std::size_t>{2});
    CHECK(full(tracker).empty());
    CHECK_NOTHROW(tracker.check_all_ready());
    tracker.reset();
  }
}

TEST_CASE("a mark too many changes nothing") {
  const series<parameter> all = some({1, 1});
  const bucket_plan plan = make_plan(all, {});
  ready_tracker tracker(plan, all);
  tracker.mark(1);
  CHECK_THROWS_WITH_AS(tracker.mark(1), doctest::Contains("marked ready twice"), usage_error);
  CHECK(full(tracker).empty());
  tracker.mark(0);
  CHECK(full(tracker).size() == 1);
}

TEST_CASE("a parameter with aliases is ready at its last mark, and the errors name them") {
  series<parameter> all = some({1, 1});
  all[0].aliases.push_back({"again", nullptr, nullptr, nullptr});
  const bucket_plan plan = make_plan(all, {.bucket_bytes = 0});
  ready_tracker tracker(plan, all);
  tracker.mark(1);
  CHECK(full(tracker).size() == 1);
  tracker.mark(0);
  CHECK(tracker.missing_marks(0) == 1);
  CHECK(full(tracker).empty());
  CHECK_THROWS_WITH_AS(tracker.check_all_ready(), doctest::Contains("2 times, once for each of p0 again"), usage_error);
  tracker.mark(0);
  CHECK(full(tracker).size() == 1);
  CHECK_THROWS_WITH_AS(tracker.mark(0), doctest::Contains("more than 2 times"), usage_error);
}

TEST_CASE("of the parameters that lack a mark up to eight are named, and the way out") {
  const auto message = [](std::size_t count) {
    const series<parameter> all = some(std::vector<std::size_t>(count, 1));
    const bucket_plan plan = make_plan(all, {});
    ready_tracker tracker(plan, all);
    tracker.mark(1);
    try {
      tracker.check_all_ready();
    } catch (const usage_error& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  const std::string begin = "gradsync bucket 0 \"p0\": was not marked ready before finish()";
  const std::string end = "; mark_all_ready() takes what your backward pass has not used as it is";
  CHECK(message(2) == begin + end);
  CHECK(message(3) == begin + "; the same goes for \"p2\"" + end);
  CHECK(message(9) == begin + R"(; the same goes for "p2", "p3", "p4", "p5", "p6", "p7", "p8")" + end);
  CHECK(message(12) == begin + R"(; the same goes for "p2", "p3", "p4", "p5", "p6", "p7", "p8" and 3 more)" + end);
}
