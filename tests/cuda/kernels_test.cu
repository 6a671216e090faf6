// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

// The bodies of kernels, called on the host: the lines that the device runs, without launch and without stream.
#include "gradsync/cuda/kernels.hpp"

#include <doctest/doctest.h>

#include <cstring>
#include <limits>
#include <vector>

#include "gradsync/cuda/launch.hpp"
#include "tests/laws/scalar.hpp"
#include "tests/laws/scattered.hpp"

using namespace gradsync;

namespace {

template <class T>
bool same(T a, T b) {
  return std::memcmp(&a, &b, sizeof a) == 0;
}

template <class T>
std::vector<T> edges() {
  using limits = std::numeric_limits<T>;
  return {T(0),
          T(-0.0),
          T(1),
          T(-1.5),
          T(0.1),
          T(1) / T(3),
          T(16777217),
          limits::min(),
          -limits::denorm_min(),
          limits::denorm_min() * T(12345),
          limits::max(),
          -limits::max() / T(3),
          limits::infinity(),
          T(3e-39)};
}

}  // namespace

TEST_CASE_TEMPLATE("factors and divisors have the bits of the host's, subnormals and infinities too", T, float, double) {
  for (const T x : edges<T>())
    for (const double by : {0.0, 1.0, 3.0, 0.1, 1.0 / 3, 16777217.0, 1e-30, 7e30}) {
      CHECK(same(rounded::factor<T>(by)(x), laws::product(x, by)));
      if (x == x && (by != 0 || x - x == 0)) CHECK(same(rounded::divisor<T>(by)(x), laws::quotient(x, by)));
      CHECK(same(rounded::factor<T>(by)(x), weighted(x, by)));
    }
}

TEST_CASE("the tiles of a list cover each element of each run once") {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    detail::run_list list;
    list.views = 2;
    using body = detail::copy_body<std::uint32_t>;
    std::vector<std::vector<std::uint32_t>> memory;
    auto random = [&, k = std::uint64_t{0}](std::uint64_t below) mutable { return laws::mixed(seed * 1000 + ++k) % below; };
    std::vector<std::vector<int>> visits;
    for (int run = 0; run < 12; ++run) {
      const std::size_t n = random(3) == 0 ? 1 + random(9) : 1 + random(3 * detail::tile_length<body>);
      memory.emplace_back(2 * n + 16);
      std::byte* const at[] = {reinterpret_cast<std::byte*>(memory.back().data() + random(4)),
                               reinterpret_cast<std::byte*>(memory.back().data() + n + 4 + random(4))};
      list.push<body>(at, n);
      visits.emplace_back(n);
    }
    REQUIRE(list.runs == 12);
    for (std::uint32_t block = 0; block < list.blocks(); ++block) {
      const detail::run_tile t = list.tile_of(block, detail::tile_length<body>);
      CHECK((t.begin < t.end && t.begin <= t.wide && t.wide <= t.end));
      for (std::size_t i = t.begin; i < t.end; ++i) ++visits[static_cast<std::size_t>(t.run)][i];
      if (t.wide < t.end)
        for (int v = 0; v < 2; ++v) CHECK((reinterpret_cast<std::uintptr_t>(list.pointer(t.run, v)) + 4 * t.wide) % 16 == 0);
    }
    for (const auto& run : visits)
      for (const int count : run) CHECK(count == 1);
  }
}

TEST_CASE_TEMPLATE("the tree over any number of sources is the canonical one", T, float, double) {
  const std::size_t n = 77;
  for (int count = 1; count <= detail::most_sources; ++count) {
    std::vector<std::vector<T>> values;
    std::vector<std::vector<T>> memory;
    detail::run_list list;
    list.views = count;
    std::vector<std::byte*> at;
    std::vector<double> scales;
    for (int s = 0; s < count; ++s) {
      values.push_back(laws::numbers<T>(static_cast<std::uint64_t>(count), s, n));
      memory.push_back(values.back());
      at.push_back(reinterpret_cast<std::byte*>(memory.back().data()));
      scales.push_back(s % 3 == 0 ? 0.1 + s : s);
    }
    using body = detail::mean_body<T, 0>;
    list.push<body>(at.data(), n);
    detail::map_twin<body>::run(list.blocks(), body({.at = nullptr, .value = 3}, scales), list);
    bool right = true;
    for (std::size_t i = 0; i < n; ++i) {
      const auto leaf = [&](int s) { return laws::product(values[static_cast<std::size_t>(s)][i], scales[static_cast<std::size_t>(s)]); };
      const T expected = laws::quotient(laws::tree_of<T>(leaf, laws::plus<T>, 0, count), 3.0);
      for (const auto& one : memory) right = right && same(one[i], expected);
    }
    CHECK_MESSAGE(right, count, " sources");
  }
}
