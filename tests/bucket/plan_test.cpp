// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0
#include "gradsync/bucket/plan.hpp"

#include <doctest/doctest.h>

#include <random>

#include "tests/bucket/models.hpp"

using namespace gradsync;
using test::shape;

namespace {

constexpr dtype f32 = dtype::float32, f64 = dtype::float64;

// The parameters of each bucket, in the order in which the buckets leave.
using groups = std::vector<std::vector<std::size_t>>;

bucket_plan planned(const std::vector<shape>& shapes, const plan_options& options = {}) {
  return make_plan(test::parameters_of_shapes(shapes), options);
}

groups grouped(const std::vector<shape>& shapes, const plan_options& options) {
  groups all;
  for (const bucket& b : planned(shapes, options).buckets) {
    all.emplace_back();
    for (const slot& s : b.slots) all.back().push_back(s.parameter);
  }
  return all;
}

// In floats, both caps alike.
plan_options cap(std::size_t floats) { return {.bucket_bytes = 4 * floats, .first_bucket_bytes = 4 * floats}; }

}  // namespace

TEST_CASE("parameters are taken from the last to the first, and stand in model order inside a bucket") {
  CHECK(grouped({{10}, {10}, {10}, {10}, {10}}, cap(20)) == groups{{3, 4}, {1, 2}, {0}});
  CHECK(grouped({{1}, {2}, {3}}, cap(100)) == groups{{0, 1, 2}});
}

TEST_CASE("a bucket is closed before the parameter that would push it over its cap") {
  CHECK(grouped({{10}, {10}}, cap(20)) == groups{{0, 1}});  // exactly at the cap
  CHECK(grouped({{11}, {10}}, cap(20)) == groups{{1}, {0}});
  CHECK(grouped({{5}, {21}, {5}}, cap(20)) == groups{{2}, {1}, {0}});  // larger than a bucket: one of its own
  CHECK(grouped({{20}, {20}}, cap(20)) == groups{{1}, {0}});
  CHECK(grouped({{3}, {3}}, {.bucket_bytes = 23, .first_bucket_bytes = 23}) == groups{{1}, {0}});  // a byte too small
  CHECK(grouped({{3}, {3}}, {.bucket_bytes = 24, .first_bucket_bytes = 24}) == groups{{0, 1}});
}

TEST_CASE("a cap of 0 gives every parameter a bucket of its own, also those without elements") {
  CHECK(grouped({{1}, {0}, {2}, {0}}, cap(0)) == groups{{3}, {2}, {1}, {0}});
  CHECK(grouped({{0}, {0}, {0}}, cap(0)) == groups{{2}, {1}, {0}});
  CHECK(grouped({{1}, {1}, {1}}, {.bucket_bytes = 100, .first_bucket_bytes = 0}) == groups{{2}, {0, 1}});
}

TEST_CASE("the first bucket has a cap of its own where that is less") {
  const std::vector<shape> five = {{10}, {10}, {10}, {10}, {10}};
  CHECK(grouped(five, {.bucket_bytes = 120, .first_bucket_bytes = 40}) == groups{{4}, {1, 2, 3}, {0}});
  CHECK(grouped(five, {.bucket_bytes = 40, .first_bucket_bytes = 120}) == groups{{4}, {3}, {2}, {1}, {0}});
}

TEST_CASE("without options the first bucket holds 1 MiB and the others 25") {
  const std::size_t mib = (1 << 20) / 4;
  std::vector<shape> shapes(40, {mib / 2});
  const bucket_plan plan = planned(shapes);
  REQUIRE(plan.buckets.size() == 2);
  CHECK(plan.buckets[0].bytes() == 1 << 20);
  CHECK(plan.buckets[1].bytes() == 19 << 20);
  shapes.assign(54, {mib / 2});
  CHECK(planned(shapes).buckets[1].bytes() == 25 << 20);
}

TEST_CASE("parameters without elements travel with their neighbours") {
  CHECK(grouped({{0}, {10}, {0}, {10}, {0}}, cap(10)) == groups{{2, 3, 4}, {0, 1}});
  const bucket_plan plan = planned({{0}, {0}});
  REQUIRE(plan.buckets.size() == 1);
  CHECK((plan.buckets[0].count == 0 && plan.buckets[0].padded_count == 0 && plan.buckets[0].slots.size() == 2));
}

TEST_CASE("each type has buckets of its own, which leave in the order in which reverse model order fills them") {
  CHECK(grouped({{1, f32}, {1, f64}, {1, f32}, {1, f64}}, cap(100)) == groups{{1, 3}, {0, 2}});
  CHECK(grouped({{1, f64}, {1, f32}, {1, f32}, {1, f64}}, cap(100)) == groups{{1, 2}, {0, 3}});
  CHECK(grouped({{8, f64}, {8, f32}, {8, f64}, {8, f32}, {8, f64}}, cap(16)) == groups{{4}, {2}, {1, 3}, {0}});
  const bucket_plan plan = planned({{1, f32}, {1, f64}});
  CHECK(plan.buckets[0].type == f64);
  CHECK(plan.buckets[1].type == f32);
}

TEST_CASE("elements follow each other without gaps; in storage of ours each parameter begins on 64 bytes") {
  const bucket_plan plan = planned({{3}, {16}, {17}, {0}, {1}, {9, f64}, {8, f64}}, {.bucket_bytes = 4096, .first_bucket_bytes = 4096});
  REQUIRE(plan.buckets.size() == 2);
  const bucket &doubles = plan.buckets[0], &floats = plan.buckets[1];
  CHECK((doubles.count == 17 && doubles.padded_count == 24 && doubles.bytes() == 136));
  CHECK((doubles.slots[0].first == 0 && doubles.slots[1].first == 9 && doubles.slots[1].padded == 16));
  CHECK((floats.count == 37 && floats.padded_count == 80 && floats.bytes() == 148));
  const std::size_t first[] = {0, 3, 19, 36, 36}, padded[] = {0, 16, 32, 64, 64}, counts[] = {3, 16, 17, 0, 1};
  for (std::size_t i = 0; i < 5; ++i) {
    const slot& s = floats.slots[i];
    CHECK((s.parameter == i && s.first == first[i] && s.padded == padded[i] && s.count == counts[i]));
    CHECK((plan.bucket_of[i] == 1 && plan.slot_of[i] == i));
  }
  CHECK((plan.bucket_of[6] == 0 && plan.slot_of[6] == 1));
}

TEST_CASE("for any model and any cap each parameter has exactly one place, and no bucket could have been fuller") {
  std::mt19937 random(1);
  for (int repeat = 0; repeat < 200; ++repeat) {
    std::vector<shape> shapes(1 + random() % 40);
    for (shape& s : shapes) s = {random() % 5 == 0 ? 0 : random() % 100, random() % 3 == 0 ? f64 : f32};
    const plan_options options{.bucket_bytes = random() % 800, .first_bucket_bytes = random() % 800};
    const bucket_plan plan = planned(shapes, options);
    std::vector<int> seen(shapes.size());
    std::size_t last_filled = shapes.size();
    int over = 0;
    for (std::size_t b = 0; b < plan.buckets.size(); ++b) {
      const bucket& one = plan.buckets[b];
      REQUIRE_FALSE(one.slots.empty());
      if (one.bytes() > options.bucket_bytes && one.slots.size() > 1 && options.bucket_bytes > 0) ++over;
      for (std::size_t i = 0; i < one.slots.size(); ++i) {
        const slot& s = one.slots[i];
        ++seen[s.parameter];
        CHECK((plan.bucket_of[s.parameter] == b && plan.slot_of[s.parameter] == i));
        CHECK((shapes[s.parameter].type == one.type && shapes[s.parameter].count == s.count));
        CHECK((i == 0 || s.parameter > one.slots[i - 1].parameter));
      }
      CHECK(one.slots.front().parameter < last_filled);
      last_filled = one.slots.front().parameter;
    }
    CHECK(over == 0);
    for (const int times : seen) CHECK(times == 1);
  }
}

TEST_CASE(
    "given the order in which gradients become ready, buckets are cut and leave in that order, and hold their parameters in model order") {
  const auto after = [](const std::vector<shape>& shapes, const plan_options& options, const std::vector<std::uint32_t>& order) {
    groups all;
    const bucket_plan plan = make_plan(test::parameters_of_shapes(shapes), options, order);
    for (const bucket& b : plan.buckets) {
      all.emplace_back();
      for (std::size_t k = 0; k < b.slots.size(); ++k) {
        all.back().push_back(b.slots[k].parameter);
        CHECK((plan.bucket_of[b.slots[k].parameter] + 1 == all.size() && plan.slot_of[b.slots[k].parameter] == k));
      }
    }
    return all;
  };
  const std::vector<shape> five = {{10}, {10}, {10}, {10}, {10}};
  CHECK(after(five, cap(20), {0, 1, 2, 3, 4}) == groups{{0, 1}, {2, 3}, {4}});
  CHECK(after(five, cap(20), {3, 0, 4, 1, 2}) == groups{{0, 3}, {1, 4}, {2}});
  CHECK(after(five, cap(0), {3, 0, 4, 1, 2}) == groups{{3}, {0}, {4}, {1}, {2}});
  CHECK(after(five, {.bucket_bytes = 120, .first_bucket_bytes = 40}, {2, 1, 0, 3, 4}) == groups{{2}, {0, 1, 3}, {4}});
  // Two types: the bucket whose last parameter is ready first leaves first.
  CHECK(after({{1, f64}, {1}, {1, f64}, {1}}, cap(100), {0, 3, 2, 1}) == groups{{0, 2}, {1, 3}});
  CHECK(after({{1, f64}, {1}, {1, f64}, {1}}, cap(100), {1, 0, 3, 2}) == groups{{1, 3}, {0, 2}});
  // Elements are counted in the order of the slots.
  const bucket_plan plan = make_plan(test::parameters_of_shapes({{3}, {5}, {7}}), {}, std::vector<std::uint32_t>{2, 0, 1});
  REQUIRE(plan.buckets.size() == 1);
  const auto& slots = plan.buckets[0].slots;
  CHECK((slots[0].first == 0 && slots[1].first == 3 && slots[2].first == 8 && slots[2].padded == 32));
}

TEST_CASE("reverse model order, given as an order, changes nothing") {
  std::mt19937 random(2);
  for (int repeat = 0; repeat < 50; ++repeat) {
    std::vector<shape> shapes(1 + random() % 40);
    std::vector<std::uint32_t> order;
    for (shape& s : shapes) s = {random() % 5 == 0 ? 0 : random() % 100, random() % 3 == 0 ? f64 : f32};
    for (auto i = static_cast<std::uint32_t>(shapes.size()); i-- > 0;) order.push_back(i);
    const plan_options options{.bucket_bytes = random() % 800, .first_bucket_bytes = random() % 800};
    const auto parameters = test::parameters_of_shapes(shapes);
    CHECK(make_plan(parameters, options, order) == make_plan(parameters, options));
  }
}

TEST_CASE("a model without parameters has no buckets") { CHECK(planned({}).buckets.empty()); }

TEST_CASE("the table has a line for each bucket, with its size, type, layout and parameters") {
  const auto parameters = test::parameters_of_shapes({{1'000'000}, {3, f64}, {10}, {20}, {30}, {40}, {50}});
  CHECK(describe(make_plan(parameters, {.bucket_bytes = 1000, .first_bucket_bytes = 1000}), parameters, layout::packed) ==
        "bucket        bytes  type     layout     parameters\n"
        "     0          600  float32  packed     p2, p3, p4, p5, and 1 more\n"
        "     1           24  float64  packed     p1\n"
        "     2      4000000  float32  packed     p0\n");
  const auto one = test::parameters_of_shapes({{1}, {2}, {3}, {4}});
  CHECK(describe(make_plan(one), one) ==
        "bucket        bytes  type     parameters\n"
        "     0           40  float32  p0, p1, p2, p3\n");
  CHECK(describe(bucket_plan{}, {}, layout::adopted) == "bucket        bytes  type     layout     parameters\n");
  CHECK(describe(make_plan(one, cap(0)), one, layout::in_place).find("  in place   p3\n") != std::string::npos);
  CHECK(describe(make_plan(one, cap(0)), one, layout::adopted).find("  adopted    p3\n") != std::string::npos);
}

TEST_CASE("the table shows what sums each bucket, where that is told") {
  const auto parameters = test::parameters_of_shapes({{100}, {3}});
  const std::vector<std::string> names = {"tree", "halving_doubling"};
  CHECK(describe(make_plan(parameters, cap(0)), parameters, layout::in_place, names) ==
        "bucket        bytes  type     layout     strategy          parameters\n"
        "     0           12  float32  in place   tree              p1\n"
        "     1          400  float32  in place   halving_doubling  p0\n");
  const std::vector<std::string> short_names = {"ring", "tree"};
  CHECK(describe(make_plan(parameters, cap(0)), parameters, layout::automatic, short_names).find("float32  ring      p1\n") !=
        std::string::npos);
}
