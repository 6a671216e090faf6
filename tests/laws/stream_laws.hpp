// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// The laws of a stream over memory that the host can read: for `host_stream`, and for yours. Include it in a doctest file and call it:
///
///     TEST_CASE_TEMPLATE("my stream obeys the laws", T, float, double) { my_stream s; gradsync::laws::stream_laws<T>(s); }
///
/// Every operation gives the bits of a scalar loop, in one piece or in any number of them, cut alike on both sides or differently, and
/// touches nothing around them.
#pragma once

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "gradsync/core/buffer_view.hpp"
#include "gradsync/core/stream.hpp"
#include "tests/laws/scalar.hpp"
#include "tests/laws/scattered.hpp"

namespace gradsync::laws {

template <class T>
std::vector<T> scalar_fold(const std::vector<T>& leaf, double weight, const std::vector<std::vector<T>>& partials) {
  std::vector<T> to(leaf.size());
  for (std::size_t i = 0; i < to.size(); ++i) {
    T x = weight == 0 ? T(-0.0) : product(leaf[i], weight);
    for (const auto& partial : partials) x = stored(partial[i] + x);
    to[i] = x;
  }
  return to;
}

/// One fold of n elements, each buffer cut in its own way. The result goes to buffer `into`: 0 a new one, 1 the leaf, 2.. a partial sum.
template <class T, stream S>
void fold_law(S& s, std::size_t n, double weight, std::size_t count, std::size_t into) {
  const std::uint64_t seed = n * 31 + count;
  std::vector<std::vector<T>> values;
  std::deque<scattered<T>> buffers;  // to, leaf, partial sums
  std::vector<buffer_view> views;
  for (std::size_t b = 0; b < count + 2; ++b) {
    values.push_back(numbers<T>(seed, static_cast<int>(b), n));
    buffers.emplace_back(values.back(), pieces_of(n, seed + b));
    views.push_back(buffers.back().view());
  }
  const auto expected = scalar_fold(values[1], weight, {values.begin() + 2, values.end()});
  s.fold(views[into], views[1], weight, std::span<const buffer_view>(views).subspan(2));
  bool right = true;
  for (std::size_t b = 0; b < buffers.size(); ++b)
    right = right && buffers[b].guards_intact() && same_bits(buffers[b].values(), b == into ? expected : values[b]);
  CHECK_MESSAGE(right, n, " elements, weight ", weight, ", ", count, " partial sums, result in buffer ", into);
}

template <class T, stream S>
void divide_and_copy_law(S& s, std::size_t n, std::uint64_t seed) {
  const auto values = numbers<T>(seed, 0, n), others = numbers<T>(seed, 1, n);
  for (const double total : {1.0, 3.0, 0.3, 16777217.0, 0.0}) {
    scattered<T> buffer(values, pieces_of(n, seed));
    std::vector<T> expected(n);
    for (std::size_t i = 0; i < n; ++i) expected[i] = quotient(values[i], total);
    s.divide(buffer.view(), buffer.view(), total);
    CHECK_MESSAGE((same_bits(buffer.values(), expected) && buffer.guards_intact()), n, " elements divided by ", total);
    scattered<T> to(others, pieces_of(n, seed + 2)), from(values, pieces_of(n, seed + 3));
    s.divide(to.view(), from.view(), total);
    CHECK_MESSAGE((same_bits(to.values(), expected) && to.guards_intact()), n, " elements divided by ", total, ", elsewhere");
    CHECK(same_bits(from.values(), values));
  }
  scattered<T> to(values, pieces_of(n, seed)), from(others, pieces_of(n, seed + 1));
  s.copy(to.view(), from.view());
  CHECK_MESSAGE((same_bits(to.values(), others) && to.guards_intact()), n, " elements copied");
  CHECK_MESSAGE((same_bits(from.values(), others) && from.guards_intact()), n, " elements copied from");
  s.copy(to.view(), to.view());  // where an operation has nothing to do, nothing changes
  CHECK(same_bits(to.values(), others));
}

/// A leaf of weight 0 need not exist: its view is empty, or its elements are not numbers.
template <class T, stream S>
void absent_leaf_law(S& s) {
  const std::vector<T> values = {1, T(-0.0), 0, 5, 6};
  scattered<T> to(numbers<T>(1, 0, 5), {2, 3}), partial(values, {4, 1});
  const std::vector<buffer_view> partials = {partial.view()};
  s.fold(to.view(), buffer_view{dtype_of<T>(), {}}, 0, partials);
  CHECK(same_bits(to.values(), values));
  const extent nowhere{nullptr, 0, 5};
  s.fold(to.view(), buffer_view{dtype_of<T>(), std::span(&nowhere, 1)}, 0, {});
  CHECK(same_bits(to.values(), std::vector<T>(5, T(-0.0))));
}

template <class T, stream S>
void stream_laws(S& s) {
  for (const std::size_t n : {0u, 1u, 2u, 7u, 16u, 33u, 100u, 1000u, 5003u}) {
    for (const double weight : {1.0, 0.0, 0.1, 3.0, 16777217.0})
      for (std::size_t count = 0; count <= 4; ++count)
        for (std::size_t into = 0; into < count + 2; ++into) fold_law<T>(s, n, weight, count, into);
    for (std::uint64_t seed = 0; seed < 8; ++seed) divide_and_copy_law<T>(s, n, seed);
  }
  fold_law<T>(s, 40, 0.5, 31, 0);  // 2^31 micro-steps
  absent_leaf_law<T>(s);
}

}  // namespace gradsync::laws
