// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

#include "gradsync/core/lanes.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

using namespace gradsync::detail;

TEST_CASE_TEMPLATE("a sweep visits each element once, whatever their number", T, float, double) {
  for (std::size_t n = 0; n < 70; ++n) {
    std::vector<T> to(n + 2, T{1});
    const T two = 2;
    T* const at = to.data() + 1;  // not aligned
    sweep<T>(
        n, [=]<class V>(std::size_t i) __attribute__((always_inline)) {
          V x;
          load(x, at + i);
          x *= two;
          store(at + i, x);
        });
    CHECK(to.front() == 1);
    CHECK(to.back() == 1);
    for (std::size_t i = 0; i < n; ++i) REQUIRE(to[i + 1] == 2);
  }
}

TEST_CASE("vectors are as wide as was asked for, and single elements are left for the rest") {
  std::size_t vectors = 0, singles = 0;
  std::size_t *v = &vectors, *s = &singles;
  sweep_by<16, float>(
      8 + 8 + 4 + 3, [=]<class V>(std::size_t) __attribute__((always_inline)) { *(sizeof(V) >= 16 ? v : s) += sizeof(V) == 32 ? 2 : 1; });
  CHECK(vectors == 5);
  CHECK(singles == 3);
}

TEST_CASE("a rounded product is rounded before it is added, also where the processor could do both at once") {
  volatile float a = 1 + 0x1p-12f, minus = -(1 + 0x1p-11f);
  CHECK(rounded(a * a) + minus == 0);  // fused: 2^-24
}
