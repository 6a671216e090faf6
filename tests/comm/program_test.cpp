// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0
#include "gradsync/comm/program.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace gradsync;
using kind = operation::kind;

TEST_CASE("a new program is one rank's, and has no rounds") {
  const program p;
  CHECK(p.rank == 0);
  CHECK(p.size == 1);
  CHECK(p.chunks == 1);
  CHECK(p.rounds() == 0);
  CHECK_FALSE(p.fused);
  CHECK(p.scratch_count == 0);
  CHECK(operation{kind::add, false, 1, 0, 1, 0, 0} ==
        operation{kind::add, false, 1, 0, 1, 0, 0, region::buffer, region::buffer, region::buffer});
}

TEST_CASE("scratch stands in for a range of chunks, as they are cut in the buffer") {
  const extent all{nullptr, 0, 1000};
  const buffer_view buffer{dtype::float32, std::span(&all, 1)};  // chunks of 112 elements, the last ones shorter
  program p;
  p.chunks = 9;
  CHECK(p.scratch_bytes(buffer) == 0);
  p.scratch_first = 2;
  p.scratch_count = 3;
  const auto [begin, end] = p.scratch_of(buffer);
  CHECK((begin == 2 * 112 && end == 5 * 112));
  CHECK(p.scratch_bytes(buffer) == 3 * 112 * 4);
  p.scratch_count = 7;
  CHECK(p.scratch_bytes(buffer) == (1000 - 2 * 112) * 4);
  CHECK(p.scratch_bytes({}) == 0);
}

TEST_CASE("a round is its operations, in order; it may be empty") {
  const operation a{kind::send, false, 1, 0, 2, 0, 0}, b{kind::add, true, 1, 2, 1, 0, 1}, c{kind::copy, false, 2, 0, 1, 1, 1};
  program p;
  p.operations = {a, b, c};
  p.round_begin = {0, 2, 2, 3};
  REQUIRE(p.rounds() == 3);
  REQUIRE(p.round(0).size() == 2);
  CHECK((p.round(0)[0] == a && p.round(0)[1] == b));
  CHECK(p.round(1).empty());
  REQUIRE(p.round(2).size() == 1);
  CHECK(p.round(2)[0] == c);
  CHECK(a != b);
  CHECK(hazard{1, 2} == hazard{1, 2});
  CHECK(hazard{1, 2} != hazard{1, 3});
}

TEST_CASE("what an operation does has a name") {
  CHECK(name_of(kind::send) == std::string("send"));
  CHECK(name_of(kind::copy) == std::string("copy"));
  CHECK(name_of(kind::add) == std::string("add"));
  CHECK(name_of(kind::join) == std::string("join"));
}
