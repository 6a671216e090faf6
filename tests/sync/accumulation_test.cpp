// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

#include "gradsync/sync/accumulation.hpp"

#include <doctest/doctest.h>

#include <bit>
#include <limits>
#include <vector>

#include "gradsync/core/host_stream.hpp"
#include "tests/sync/models.hpp"

using namespace gradsync;

namespace {

constexpr auto on_host = [](std::size_t bytes) { return aligned_bytes(bytes); };

series<parameter> two(std::size_t first, std::size_t second) {
  series<parameter> all(2);
  all[0].count = first;
  all[1].type = dtype::float64;
  all[1].count = second;
  return all;
}

template <class T>
memory over(std::vector<T>& x) {
  return {reinterpret_cast<std::byte*>(x.data()), x.size()};
}

}  // namespace

TEST_CASE("n micro-steps are added as the canonical tree over n leaves, with log2(n) + 1 copies at most") {
  host_stream stream;
  for (int n = 1; n <= 33; ++n) {
    const series<parameter> all = two(37, 0);
    accumulation sums(all);
    auto weight = [](int m) { return m % 7 == 3 ? 0.0 : 1 + 0.3 * m; };
    std::vector<std::vector<float>> leaves;
    for (int m = 0; m < n; ++m) leaves.push_back(test::random_floats(static_cast<std::uint64_t>(m), 37));
    std::vector<float> result;
    for (int m = 0; m < n; ++m) {
      std::vector<float> leaf = leaves[static_cast<std::size_t>(m)];
      if (m + 1 < n) {
        sums.reserve(on_host);
        sums.take(stream, 0, over(leaf), weight(m));
        sums.count(weight(m));
      } else {
        sums.close(stream, over(leaf), 0, over(leaf), weight(m));
        result = leaf;
      }
    }
    for (std::size_t i = 0; i < 37; ++i) {
      auto term = [&](int m) { return weight(m) == 0 ? -0.0f : weighted(leaves[static_cast<std::size_t>(m)][i], weight(m)); };
      REQUIRE(result[i] == test::tree_sum<float>(term, 0, n));
    }
    CHECK(sums.total(weight(n - 1)) == test::tree_sum<double>(weight, 0, n));
    CHECK(sums.bytes() == (n == 1 ? 0u : static_cast<unsigned>(std::bit_width(static_cast<unsigned>(n - 1)))) * 192u);
  }
}

TEST_CASE("after a reset an update starts anew, in the memory of the one before") {
  host_stream stream;
  const series<parameter> all = two(3, 5);
  accumulation sums(all);
  for (int repeat = 0; repeat < 3; ++repeat) {
    std::vector<float> a(3, 1.0f);
    std::vector<double> b(5, 2.0);
    for (int m = 0; m < 3; ++m) {
      sums.reserve(on_host);
      sums.take(stream, 0, over(a), 1);
      sums.take(stream, 1, over(b), 2);
      sums.count(2);
    }
    sums.close(stream, over(a), 0, over(a), 1);
    sums.close(stream, over(b), 1, over(b), 0);
    CHECK(a == std::vector<float>(3, 4.0f));
    CHECK(b == std::vector<double>(5, 12.0));
    CHECK(sums.total(0) == 6);
    CHECK(sums.micro_steps() == 3);
    sums.reset();
    CHECK(sums.micro_steps() == 0);
    CHECK(sums.bytes() == 2 * 128);
  }
}

TEST_CASE("a leaf of weight 0 is not read, and adds nothing") {
  host_stream stream;
  const series<parameter> all = two(4, 0);
  accumulation sums(all);
  std::vector<float> nan(4, std::numeric_limits<float>::quiet_NaN()), x(4, -0.0f);
  sums.reserve(on_host);
  sums.take(stream, 0, over(nan), 0);
  sums.count(0);
  sums.close(stream, over(x), 0, over(x), 1);
  for (float y : x) CHECK(std::bit_cast<std::uint32_t>(y) == 0x80000000u);  // -0 + -0: not even the sign of a zero has changed
  sums.close(stream, over(x), 0, {}, 0);
  for (float y : x) CHECK(std::bit_cast<std::uint32_t>(y) == 0x80000000u);
}
