// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0
#include "gradsync/comm/crossing.hpp"

#include <doctest/doctest.h>

using namespace gradsync;

TEST_CASE("each rank has a lane in which nothing has happened yet") {
  const detail::crossing shared(3);
  for (std::size_t rank = 0; rank < 3; ++rank) {
    const detail::lane& lane = shared.lanes[rank];
    CHECK(lane.opened.value() == 0);
    CHECK(lane.progress.value() == 0);
    CHECK(lane.inside == 0);
    CHECK(lane.slots.empty());
    CHECK(lane.scratch.empty());
  }
}

TEST_CASE("what different ranks or different moments write lies on different cache lines") {
  const detail::crossing shared(2);
  const auto line = [](const void* p) { return reinterpret_cast<std::uintptr_t>(p) / 128; };
  const detail::lane &a = shared.lanes[0], &b = shared.lanes[1];
  CHECK(line(&a.opened) != line(&a.progress));
  CHECK(line(&a.progress) != line(&a.inside));
  CHECK(line(&a.inside) != line(&a.slots));
  CHECK(line(&a.slots) != line(&b.opened));
  CHECK(reinterpret_cast<std::uintptr_t>(&b) % 128 == 0);
}
