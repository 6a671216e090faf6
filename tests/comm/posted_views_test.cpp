// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0
#include "gradsync/comm/posted_views.hpp"

#include <doctest/doctest.h>

#include <vector>

using namespace gradsync;

namespace {

struct posting {
  contribution lent;
  extent scratch;
};

// Two ranks with 100 floats each; rank 1 has scratch for elements 48 .. 99.
struct two_ranks {
  std::vector<float> values[2] = {std::vector<float>(100), std::vector<float>(100)}, scratch = std::vector<float>(52);
  extent whole[2] = {{reinterpret_cast<std::byte*>(values[0].data()), 0, 100}, {reinterpret_cast<std::byte*>(values[1].data()), 0, 100}};
  posting posts[2] = {{{.buffer = {dtype::float32, std::span(&whole[0], 1)}}, {}},
                      {{.buffer = {dtype::float32, std::span(&whole[1], 1)}}, {reinterpret_cast<std::byte*>(scratch.data()), 48, 52}}};

  int rank() const { return 0; }
  const posting& posted_by(int rank, const ticket&) const { return posts[rank]; }
};

operation reads(int chunk) {
  return {.what = operation::kind::copy, .divides = false, .peer = 1, .first = chunk, .count = 1, .hazard_begin = 0, .hazard_end = 0};
}

}  // namespace

TEST_CASE("elements lie in the buffer that a rank has lent, or in its scratch") {
  const two_ranks ranks;
  CHECK(detail::view_of(ranks, 1, region::buffer, {}).extents[0].data == ranks.whole[1].data);
  const buffer_view beside = detail::view_of(ranks, 1, region::scratch, {});
  CHECK((beside.extents[0].first == 48 && beside.extents[0].count == 52 && beside.type == dtype::float32));
}

TEST_CASE("scratch that a peer does not have means that it runs another strategy") {
  const two_ranks ranks;
  program p;
  p.name = "mine";
  p.chunks = 2;  // of 64 and 36 elements
  CHECK_NOTHROW(detail::expect_scratch(ranks, p, reads(1), {}));
  CHECK_THROWS_WITH_AS(detail::expect_scratch(ranks, p, reads(0), {}),
                       "gradsync[rank 0]: rank 1 does not run mine; give every rank the same strategy", mismatch_error);
  p.chunks = 100;  // the last ones are empty
  CHECK_NOTHROW(detail::expect_scratch(ranks, p, reads(99), {}));
}
