// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0
// The host's side: the same bits as core/arithmetic.hpp. What nvcc makes of the device's side is looked at by sass.sh.
#include "gradsync/cuda/arithmetic.hpp"

#include <doctest/doctest.h>

#include <limits>
#include <span>
#include <vector>

#include "tests/laws/scattered.hpp"

using namespace gradsync;

namespace {

template <class T>
std::vector<T> difficult() {
  using limits = std::numeric_limits<T>;
  std::vector<T> all = {
      T{0}, -T{0}, T{1}, T(0.1), T(1) / 3, limits::max(), limits::lowest(), limits::min(), limits::denorm_min(), limits::infinity()};
  const auto more = laws::numbers<T>(7, 1, 200);
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

template <class T>
bool same(T a, T b) {
  return laws::same_bits(std::vector<T>{a}, std::vector<T>{b});
}

const double factors[] = {1, 3, 0.1, 0.5, 16777216, 16777217, 1e-18, 1e18};

}  // namespace

TEST_CASE_TEMPLATE("products and quotients have the bits of the host's, for weights that T holds exactly and others", T, float, double) {
  for (const double by : factors) {
    const rounded::factor<T> times(by);
    const rounded::divisor<T> over(by);
    const divisor<T> expected(by);
    for (const T x : difficult<T>()) {
      CHECK_MESSAGE(same(times(x), weighted(x, by)), x, " * ", by);
      CHECK_MESSAGE(same(over(x), expected(x)), x, " / ", by);
    }
  }
}

TEST_CASE_TEMPLATE("a quotient by no weight at all is +0", T, float, double) {
  for (const T x : difficult<T>()) CHECK(same(rounded::divisor<T>(0)(x), T{0}));
}

TEST_CASE("each operation rounds once") {
  const float a = 1 + 0x1p-12f;
  CHECK(rounded::add(rounded::product(a, a), -1 - 0x1p-11f) == 0);  // 0x1p-24 if it were fused
  CHECK(rounded::product(0x1p-126f, 0.5f) == 0x1p-127f);            // not flushed
  CHECK(rounded::quotient(1.0f, 3.0f) == 1.0f / 3.0f);
  CHECK(rounded::quotient(1.0, 3.0) == 1.0 / 3.0);
  CHECK(rounded::product(0.1, 3.0) == 0.1 * 3.0);
  CHECK(rounded::widened(0.1f) == static_cast<double>(0.1f));
  CHECK(rounded::narrowed<float>(16777217.0) == 16777216.0f);
  CHECK(rounded::narrowed<double>(16777217.0) == 16777217.0);
}
