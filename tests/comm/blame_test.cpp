// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0
#include "gradsync/comm/blame.hpp"

#include <doctest/doctest.h>

using namespace gradsync;
using namespace std::chrono_literals;

namespace {

const place here{.rank = 1, .step = -1, .bucket = -1, .parameter = {}};

}  // namespace

TEST_CASE("a late rank is named, with the deadline in the unit that suits it") {
  CHECK_THROWS_WITH_AS(detail::throw_late("rank 2", 1500us, here), "gradsync[rank 1]: rank 2 did not come before the deadline of 1500 us",
                       timeout_error);
  CHECK_THROWS_WITH_AS(detail::throw_late("rank 2", 1500ms, here), "gradsync[rank 1]: rank 2 did not come before the deadline of 1500 ms",
                       timeout_error);
  CHECK_THROWS_WITH_AS(detail::throw_late("rank 2", 10min, here), "gradsync[rank 1]: rank 2 did not come before the deadline of 600 s",
                       timeout_error);
  CHECK_THROWS_WITH_AS(
      detail::throw_late("rank 2", 1h, here, detail::waits_in_turn),
      "gradsync[rank 1]: rank 2 did not come before the deadline of 3600 s; it waits for this rank: make the same calls in the "
      "same order on every rank",
      timeout_error);
}

TEST_CASE("so is one that has returned") {
  CHECK_THROWS_WITH_AS(detail::throw_gone("rank 2", here),
                       "gradsync[rank 1]: rank 2 has returned from its function and takes no part any more", transport_error);
}
