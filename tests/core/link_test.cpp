// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

#include "gradsync/core/link.hpp"

#include <doctest/doctest.h>

using gradsync::link;

namespace {

// Seconds of one message of so many bytes, all of which are added at its end.
double seconds(const link& l, double bytes) { return l.alpha + bytes * (l.beta + l.gamma); }

}  // namespace

TEST_CASE("the default link is one between processors: 1 us a message, 10 GB/s moved, 50 GB/s added") {
  const link l;
  CHECK(l.alpha == doctest::Approx(1e-6));
  CHECK(1 / l.beta == doctest::Approx(10e9));
  CHECK(1 / l.gamma == doctest::Approx(50e9));
}

TEST_CASE("a small message costs its start, a large one its bytes") {
  const link l{.alpha = 5e-6, .beta = 1e-10, .gamma = 2e-11};
  CHECK(seconds(l, 4) == doctest::Approx(5e-6).epsilon(1e-3));
  CHECK(seconds(l, 1e9) == doctest::Approx(0.12).epsilon(1e-3));
}
