// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0
#include "gradsync/collective/cost.hpp"

#include <doctest/doctest.h>

#include <vector>

#include "gradsync/collective/halving_doubling.hpp"
#include "gradsync/collective/native.hpp"
#include "gradsync/collective/ring.hpp"
#include "gradsync/collective/tree.hpp"

using namespace gradsync;

namespace {

struct uneven {  // round 0: rank 0 sends two messages, of one and of two chunks, and adds what rank 1 sends
  constexpr const char* name() const { return "uneven"; }
  constexpr level claim(int) const { return level::none; }
  constexpr int chunks(int) const { return 4; }
  constexpr int rounds(int) const { return 1; }
  template <class Post>
  constexpr void round(int, int rank, int, Post&& post) const {
    if (rank == 0) {
      post(send{1, 0, 1});
      post(send{2, 0, 2});
      post(receive{1, 3, 1, effect::add});
    } else {
      post(receive{0, 0, rank, effect::copy});
      if (rank == 1) post(send{0, 3, 1});
    }
  }
};

}  // namespace

TEST_CASE("the ring among four ranks costs what its line of use says") {
  const gradsync::link wire{.alpha = 1e-6, .beta = 1e-10, .gamma = 2e-11};
  CHECK(cost(ring{}, wire, 4, 1e6) == doctest::Approx(171e-6));
}

TEST_CASE("one rank costs nothing, and no bytes cost the messages alone") {
  constexpr gradsync::link wire{.alpha = 2, .beta = 3, .gamma = 5};
  static_assert(cost(ring{}, wire, 1, 1e6) == 0);
  CHECK(cost(tree{}, wire, 1, 1e6) == 0);
  CHECK(cost(native{}, wire, 1, 1e6) == 0);
  CHECK(cost(halving_doubling{}, wire, 8, 0) == doctest::Approx(6 * wire.alpha));
  CHECK(cost(ring{}, wire, 8, 0) == doctest::Approx(14 * wire.alpha));
}

TEST_CASE("a round takes as long as its busiest rank, sending while it receives") {
  const double n = 40;  // 10 bytes a chunk
  CHECK(cost(uneven{}, gradsync::link{.alpha = 1, .beta = 0, .gamma = 0}, 3, n) == doctest::Approx(2));
  CHECK(cost(uneven{}, gradsync::link{.alpha = 0, .beta = 1, .gamma = 0}, 3, n) == doctest::Approx(30));
  CHECK(cost(uneven{}, gradsync::link{.alpha = 0, .beta = 0, .gamma = 1}, 3, n) == doctest::Approx(10));
  CHECK(cost(uneven{}, gradsync::link{.alpha = 1, .beta = 1, .gamma = 1}, 3, n) == doctest::Approx(42));
}

TEST_CASE("a cost curve has the costs of its strategy for every link and number of bytes") {
  const auto compare = [](const auto& strategy, int size) {
    const cost_curve seconds(strategy, size);
    for (const double bytes : {0.0, 1.0, 1e4, 1e9})
      for (const gradsync::link& wire : std::vector<gradsync::link>{{1e-6, 1e-10, 2e-11}, {0, 1, 3}, {2, 0, 0}})
        CHECK(seconds(wire, bytes) == cost(strategy, wire, size, bytes));
  };
  for (int size = 1; size <= 20; ++size) {
    compare(ring{}, size);
    compare(native{}, size);
    compare(halving_doubling{}, size);
    compare(tree{.segments = 5}, size);
  }
  compare(uneven{}, 3);
}

TEST_CASE("few large messages suit a slow start, many small ones a slow link") {
  const gradsync::link slow_start{.alpha = 1e-3, .beta = 1e-12, .gamma = 1e-12}, slow_link{.alpha = 1e-9, .beta = 1e-6, .gamma = 1e-12};
  CHECK(cost(halving_doubling{}, slow_start, 16, 1e4) < cost(ring{}, slow_start, 16, 1e4));
  CHECK(cost(ring{}, slow_link, 16, 1e4) < cost(tree{.segments = 1}, slow_link, 16, 1e4));
}
