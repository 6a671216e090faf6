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

TEST_CASE_TEMPLATE("stretches are folded to the bits that views of them are", T, float, double) {
  host_stream s;
  std::vector<std::vector<T>> values;
  for (int k = 0; k < 4; ++k)
    for (values.emplace_back(); values.back().size() < 37;)
      values.back().push_back(static_cast<T>(k + 1) / static_cast<T>(values.back().size() + 3));
  for (const double weight : {0.0, 3.0, 0.1})
    for (std::size_t count = 0; count <= 3; ++count) {
      std::deque<laws::scattered<T>> buffers;
      std::vector<buffer_view> views;
      for (std::size_t k = 0; k <= count; ++k) views.push_back(buffers.emplace_back(values[k]).view());
      laws::scattered<T> expected(values[0]);
      s.fold(expected.view(), views[0], weight, std::span<const buffer_view>(views).subspan(1));
      std::vector<T> to(37);
      std::vector<std::byte*> at;
      for (auto& one : values) at.push_back(reinterpret_cast<std::byte*>(one.data()));
      s.fold(dtype_of<T>(), reinterpret_cast<std::byte*>(to.data()), at[0], weight, std::span(at).subspan(1, count), to.size());
      CHECK(to == expected.values());
    }
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
