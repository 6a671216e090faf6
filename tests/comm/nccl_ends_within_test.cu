// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0
#include "gradsync/comm/nccl_ends_within.hpp"

#include <doctest/doctest.h>

#include <atomic>

using namespace std::chrono_literals;
using gradsync::detail::ends_within;

TEST_CASE("what ends in time has ended, and what doesn't is left behind with all that it holds") {
  int done = 0;
  CHECK(ends_within(60s, [&] { done = 7; }));
  CHECK(done == 7);
  const auto held = std::make_shared<std::atomic<bool>>(false), gone = std::make_shared<std::atomic<bool>>(false);
  CHECK_FALSE(ends_within(20ms, [held, gone] {
    while (!*held) std::this_thread::sleep_for(1ms);
    *gone = true;
  }));
  *held = true;  // else it would outlive the test
  while (!*gone) std::this_thread::sleep_for(1ms);
}
