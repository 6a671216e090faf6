// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0
#include "gradsync/cuda/device.hpp"

#include <doctest/doctest.h>

using namespace gradsync;

TEST_CASE("a thread speaks to another device for a scope only") {
  REQUIRE(device_count() >= 2);
  const int before = current_device();
  {
    const on_device there(1);
    CHECK(current_device() == 1);
    const on_device here(1);
  }
  CHECK(current_device() == before);
  CHECK_THROWS_AS([] { const on_device nowhere(device_count()); }(), usage_error);
  CHECK(current_device() == before);
}
