// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

#include "gradsync/optim/slots.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

#include "gradsync/model/for_each_parameter.hpp"

TEST_CASE("each parameter has a zeroed array of its own, on its own cache lines") {
  struct net {
    struct {
      std::vector<float> value, grad;
    } a, empty;
    struct {
      std::vector<double> value, grad;
    } b;
  } model{{{1, 2, 3}, {}}, {}, {{1, 2}, {}}};
  const auto parameters = gradsync::parameters_of(model);
  const gradsync::detail::slots slots{parameters};
  CHECK(slots.bytes() == 3 * 4 + 2 * 8);
  float* const a = slots.of<float>(0);
  double* const b = slots.of<double>(2);
  CHECK(reinterpret_cast<std::uintptr_t>(a) % 64 == 0);
  CHECK(reinterpret_cast<std::uintptr_t>(b) % 64 == 0);
  for (int i = 0; i < 3; ++i) CHECK(a[i] == 0);
  a[2] = 5;
  CHECK(b[0] == 0);
  CHECK(b[1] == 0);
  CHECK(gradsync::detail::slots().empty());
  CHECK_FALSE(slots.empty());
}
