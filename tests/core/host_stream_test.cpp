// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0
#include "gradsync/core/host_stream.hpp"

#include <doctest/doctest.h>

#include "tests/laws/stream_laws.hpp"

using namespace gradsync;

TEST_CASE_TEMPLATE("the host's stream obeys the laws of a stream", T, float, double) {
  host_stream s;
  laws::stream_laws<T>(s);
}

TEST_CASE("as many partial sums as promised can be folded at once") {
  host_stream s;
  const std::vector<float> ones(9, 1);
  laws::scattered<float> to(ones), leaf(ones, {4, 0, 5});
  std::deque<laws::scattered<float>> partials;
  std::vector<buffer_view> views;
  for (std::size_t k = 0; k < host_stream::max_partials; ++k) views.push_back(partials.emplace_back(ones, laws::pieces_of(9, k)).view());
  s.fold(to.view(), leaf.view(), 2, views);
  CHECK(to.values() == std::vector<float>(9, static_cast<float>(host_stream::max_partials + 2)));
}

TEST_CASE("an operation is over when its call returns") {
  host_stream s;
  laws::scattered<double> x({9, 3}), y({0, 0}, {1, 1});
  s.divide(x.view(), x.view(), 5);
  s.copy(y.view(), x.view());
  s.divide(x.view(), x.view(), 0);
  CHECK(y.values() == std::vector<double>{9.0 / 5, 3.0 / 5});
  CHECK(x.values() == std::vector<double>{0, 0});
}
