// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

#include "gradsync/sync/step.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <limits>

using namespace gradsync;

TEST_CASE("a weight comes from every arithmetic type without a cast") {
  const std::size_t examples = 7;
  const std::ptrdiff_t index = 7;  // what Eigen counts in
  const float real = 7.0f;
  const std::uint8_t small = 7;
  for (const step_options& options : {step_options{.weight = examples}, step_options{.weight = index}, step_options{.weight = real},
                                      step_options{.weight = small}, step_options{.weight = 7}, step_options{.weight = 7.0}})
    CHECK(options.weight.value() == 7);
}

TEST_CASE("without more words a micro-step is the only one, of weight 1, and its gradient a mean") {
  const step_options options;
  CHECK(options.weight.value() == 1);
  CHECK(options.gradient == gradient_kind::mean);
  CHECK(options.micro_step == micro_step::last);
}

TEST_CASE("weights are 0 or of a size that floats can be multiplied by") {
  for (double w : {0.0, 1e-18, 5.0, 1e18}) CHECK_NOTHROW(check({.weight = w}));
  for (double w : {-1.0, -1e-300, 1e-60, 1e300, std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()})
    CHECK_THROWS_WITH_AS(check({.weight = w}), doctest::Contains("the weight of a micro-step is"), usage_error);
}

TEST_CASE("a mean is multiplied by its weight, a sum is not, and weight 0 is not read") {
  static_assert(leaf_scale({.weight = 5}) == 5);
  static_assert(leaf_scale({.weight = 5, .gradient = gradient_kind::sum}) == 1);
  static_assert(leaf_scale({.weight = 0, .gradient = gradient_kind::sum}) == 0);
  static_assert(leaf_scale({.weight = 0}) == 0);
  CHECK(leaf_scale({.weight = 0.25}) == 0.25);
}
