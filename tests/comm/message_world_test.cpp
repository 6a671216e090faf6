// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

#include "gradsync/comm/message_world.hpp"

#include <doctest/doctest.h>

#include <exception>
#include <stdexcept>
#include <vector>

using namespace gradsync;

namespace {

struct world : detail::message_world {
  explicit world(std::shared_ptr<detail::failure> outcome) : message_world(std::move(outcome), 2, 4, 0) {}
  using message_world::narrow;
  using message_world::number_;
};

}  // namespace

TEST_CASE("a part of a world has numbers of its own, and fails with the whole") {
  const auto outcome = std::make_shared<detail::failure>(4, std::chrono::steady_clock::now);
  world all(outcome), part = all;
  part.narrow(std::vector<int>{3, 2}, 1, 5);
  CHECK((all.rank() == 2 && all.size() == 4 && part.rank() == 1 && part.size() == 2 && part.number_ == 5));
  CHECK((part.place_of(0).rank == 0 && part.place_of(0).whole == 3));
  CHECK_FALSE(part.failed());
  part.check();

  outcome->fail(3, std::make_exception_ptr(std::runtime_error("disk full")));
  CHECK((all.failed() && part.failed()));
  CHECK_THROWS_WITH_AS(part.check(), "gradsync[rank 1 (rank 2 of the whole group)]: rank 0 (rank 3 of the whole group) failed: disk full",
                       transport_error);
  CHECK_THROWS_WITH_AS(all.check(), "gradsync[rank 2]: rank 3 failed: disk full", transport_error);
}
