// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0
#include "gradsync/cuda/parts.hpp"

#include <doctest/doctest.h>

#include <vector>

using namespace gradsync;
using namespace gradsync::detail;

namespace {

std::vector<float> memory(20);
extent stretch(std::size_t at, std::size_t count) { return {reinterpret_cast<std::byte*>(memory.data() + at), 0, count}; }
buffer_view view(const extent& e, dtype type = dtype::float32) { return {type, std::span(&e, 1)}; }
const place here{.rank = 1, .step = -1, .bucket = -1, .parameter = {}};

}  // namespace

TEST_CASE("a part lies apart from the whole, or at its own place in it") {
  const extent all = stretch(0, 12), own = stretch(4, 4), apart = stretch(12, 4);
  CHECK(expect_parts("all_gather", view(all), view(own), 3, here).part.data == own.data);
  CHECK(expect_parts("all_gather", view(all), view(apart), 3, here).all.data == all.data);
  CHECK(expect_parts("all_gather", {}, {}, 3, here).all.data == nullptr);
  for (const std::size_t at : {0u, 3u, 8u, 10u}) {
    const extent wrong = stretch(at, 4);
    CHECK_THROWS_WITH_AS(expect_parts("all_gather", view(all), view(wrong), 3, here),
                         "gradsync[rank 1]: all_gather: the part overlaps the whole; it may lie apart, or at this rank's own place in it",
                         usage_error);
  }
}

TEST_CASE("whole and part that don't fit together are refused with both") {
  const extent all = stretch(0, 12), part = stretch(12, 3);
  CHECK_THROWS_WITH_AS(expect_parts("reduce_scatter", view(all), view(part), 3, here),
                       "gradsync[rank 1]: reduce_scatter: the whole has 12 elements of float32 and the part 3 elements of float32; the "
                       "whole must have 3 times as many, of the same type",
                       usage_error);
  CHECK_THROWS_AS(expect_parts("reduce_scatter", view(all), view(part, dtype::int32), 4, here), usage_error);
  const extent pieces[] = {stretch(0, 4), {all.data + 16, 4, 8}};
  CHECK_THROWS_WITH_AS(expect_parts("reduce_scatter", {dtype::float32, pieces}, view(part), 4, here),
                       doctest::Contains("whole and part must lie in one piece each"), usage_error);
}
