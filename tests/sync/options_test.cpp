// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

#include <doctest/doctest.h>

#include "gradsync/sync/options.hpp"

using namespace gradsync;

TEST_CASE("by default buckets are as PyTorch's, sums a tree, and layout and progress are chosen") {
  const synchronizer_options options;
  CHECK(options.bucket_bytes == 25 * 1024 * 1024);
  CHECK(options.first_bucket_bytes == 1024 * 1024);
  CHECK(options.layout == layout::automatic);
  CHECK(options.progress == progress::automatic);
  CHECK(options.accumulation == accumulation_mode::tree);
  CHECK(options.recorder == nullptr);
}
