// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0
#include "gradsync/comm/nccl_world.hpp"

#include <doctest/doctest.h>

using namespace gradsync;
using namespace gradsync::detail;

TEST_CASE("the roll compares what ranks ask for, and knows who has not come") {
  nccl_roll roll(3);
  const nccl_request a{"ncclAllReduce", 10, dtype::float32}, b{"barrier", 1, dtype::uint8}, c{"broadcast", 4, dtype::int32, 2};
  CHECK(roll.absent(0) == 0);
  CHECK(roll.answer(1, a).peer < 0);  // the first to ask is right
  CHECK(roll.answer(1, b).peer < 0);
  CHECK(roll.answer(0, a).peer < 0);
  CHECK(roll.absent(0) == 2);
  CHECK(roll.absent(1) == 0);
  const auto other = roll.answer(0, c);
  CHECK(other.peer == 1);
  CHECK(other.theirs == b);
  CHECK(text_of(c) == "broadcast of 4 elements of int32 from rank 2");
  CHECK(text_of(b) == "barrier of 1 elements of uint8");
  CHECK(roll.answer(2, a).peer < 0);
  CHECK(roll.absent(0) == -1);
  CHECK(roll.answer(2, b).peer < 0);
  CHECK(roll.absent(1) == -1);
  for (int i = 0; i < 1000; ++i)
    for (int rank = 0; rank < 3; ++rank) CHECK(roll.answer(rank, i % 2 == 0 ? a : c).peer < 0);
  CHECK(roll.absent(1001) == -1);
  CHECK(roll.absent(1002) == 0);
}
