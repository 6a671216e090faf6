// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

#include "gradsync/bucket/cuts.hpp"

#include <doctest/doctest.h>

#include <array>
#include <vector>

using namespace gradsync;

namespace {

constexpr dtype f32 = dtype::float32, f64 = dtype::float64;

constexpr std::array<plan_item, 5> items{{{f32, 10}, {f64, 5}, {f32, 10}, {f64, 5}, {f32, 10}}};
constexpr plan_options caps{.bucket_bytes = 80, .first_bucket_bytes = 40};

struct cuts {
  std::size_t size = 0;
  std::array<std::size_t, 5> bucket_of{};
};
constexpr cuts cut_in_compiler(std::span<const std::uint32_t> order = {}) {
  cuts all;
  all.size = cut_buckets(items, caps, order, all.bucket_of);
  return all;
}

}  // namespace

TEST_CASE("the rule gives the same cuts in the compiler and at run time") {
  constexpr cuts constant = cut_in_compiler();
  static_assert(constant.size == 3);
  static_assert(constant.bucket_of == std::array<std::size_t, 5>{2, 1, 2, 1, 0});
  std::vector<std::size_t> bucket_of(5);
  CHECK(cut_buckets(items, caps, {}, bucket_of) == constant.size);
  CHECK(bucket_of == std::vector<std::size_t>(constant.bucket_of.begin(), constant.bucket_of.end()));
}

TEST_CASE("a known order takes the place of reverse model order") {
  constexpr std::uint32_t order[] = {0, 1, 2, 3, 4};
  constexpr cuts constant = cut_in_compiler(order);
  static_assert(constant.size == 3);
  static_assert(constant.bucket_of == std::array<std::size_t, 5>{0, 1, 2, 1, 2});
  CHECK(constant.bucket_of[0] == 0);
}

TEST_CASE("a parameter is put behind those that are in its bucket, and on a line of its own in storage") {
  plan_item item{f32, 3};
  struct {
    dtype type = f32;
    std::size_t count = 20, padded_count = 32;
  } b;
  CHECK(append_to(b, 7, item) == slot{.parameter = 7, .count = 3, .first = 20, .padded = 32});
  CHECK(b.count == 23);
  CHECK(b.padded_count == 48);
}
