// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0
#include "gradsync/core/memory_space.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace gradsync;

TEST_CASE("a memory space has a name that fits into a sentence") {
  CHECK(std::string(name_of(memory_space::host)) == "host");
  CHECK(std::string(name_of(memory_space::cuda)) == "CUDA device");
}
