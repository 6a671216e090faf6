// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0
#include "gradsync/model/refuse.hpp"

#include <doctest/doctest.h>

#include <vector>

using namespace gradsync::detail;

// What is refused, and in which words, is shown by the programs in tests/refused.
TEST_CASE("a shape that can be used is not refused") {
  refuse<std::vector<float>, shape::elements>();
  refuse<std::vector<int>, shape::nothing>();
}
