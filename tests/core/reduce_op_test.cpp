// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

#include "gradsync/core/reduce_op.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

using namespace gradsync;

TEST_CASE_TEMPLATE("sum, min and max of two values", T, float, double, std::int32_t, std::uint64_t) {
  CHECK(apply<reduce_op::sum>(T{2}, T{5}) == T{7});
  CHECK(apply<reduce_op::min>(T{2}, T{5}) == T{2});
  CHECK(apply<reduce_op::min>(T{5}, T{2}) == T{2});
  CHECK(apply<reduce_op::max>(T{2}, T{5}) == T{5});
  CHECK(apply<reduce_op::max>(T{5}, T{2}) == T{5});
}

TEST_CASE("negative values are ordered as numbers") {
  CHECK(apply<reduce_op::min>(-3, 2) == -3);
  CHECK(apply<reduce_op::max>(-3, -7) == -3);
  CHECK(apply<reduce_op::min>(-1.5, -std::numeric_limits<double>::infinity()) == -std::numeric_limits<double>::infinity());
}

TEST_CASE("a sum of small integers stays in their type") {
  const auto sum = apply<reduce_op::sum>(std::uint8_t{200}, std::uint8_t{100});
  static_assert(std::is_same_v<decltype(sum), const std::uint8_t>);
  CHECK(sum == 44);
}

TEST_CASE("of two equal values the first is taken, so that all ranks that fold in one order agree on the sign of zero") {
  CHECK(std::signbit(apply<reduce_op::min>(-0.0f, 0.0f)));
  CHECK_FALSE(std::signbit(apply<reduce_op::min>(0.0f, -0.0f)));
  CHECK(std::signbit(apply<reduce_op::max>(-0.0f, 0.0f)));
  CHECK_FALSE(std::signbit(apply<reduce_op::max>(0.0f, -0.0f)));
}
