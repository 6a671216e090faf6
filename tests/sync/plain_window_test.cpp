// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

#include "gradsync/sync/plain_window.hpp"

#include <doctest/doctest.h>

using namespace gradsync;

TEST_CASE("means of one weight: the buffer times that weight, over the sum of the weights") {
  plain_window window;
  CHECK(window.empty());
  for (int m = 0; m < 3; ++m) {
    window.check({.weight = 4});
    window.count({.weight = 4});
  }
  CHECK_FALSE(window.empty());
  CHECK(window.scale({.weight = 4}) == 4);
  CHECK(window.total({.weight = 4}) == 16);
  CHECK_THROWS_WITH_AS(window.check({.weight = 5}), doctest::Contains("same weight in each micro-step"), usage_error);
  CHECK_THROWS_WITH_AS(window.check({.weight = 4, .gradient = gradient_kind::sum}), doctest::Contains("means or sums"), usage_error);
}

TEST_CASE("sums of any weights: the buffer as it is") {
  plain_window window;
  window.count({.weight = 3, .gradient = gradient_kind::sum});
  CHECK_NOTHROW(window.check({.weight = 9, .gradient = gradient_kind::sum}));
  CHECK(window.scale({.weight = 9, .gradient = gradient_kind::sum}) == 1);
  CHECK(window.total({.weight = 9}) == 12);
}

TEST_CASE("a micro-step of weight 0 has added nothing, but what is there is read") {
  plain_window window;
  window.count({.weight = 0});
  CHECK(window.scale({.weight = 0}) == 0);  // nothing is there
  CHECK(window.scale({.weight = 6}) == 6);
  window.count({.weight = 6});
  CHECK_NOTHROW(window.check({.weight = 0}));
  CHECK(window.scale({.weight = 0}) == 6);
  CHECK(window.total({.weight = 0}) == 6);

  plain_window sums;
  sums.count({.weight = 6, .gradient = gradient_kind::sum});
  CHECK(sums.scale({.weight = 0}) == 1);
}
