// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

#include "gradsync/core/buffer_view.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

using namespace gradsync;

namespace {

// A buffer of floats that lies in pieces of the given sizes; element i holds i.
struct scattered {
  explicit scattered(const std::vector<std::size_t>& sizes) {
    float next = 0;
    for (const std::size_t count : sizes) {
      pieces.emplace_back(count);
      std::iota(pieces.back().begin(), pieces.back().end(), next);
      extents.push_back({reinterpret_cast<std::byte*>(pieces.back().data()), static_cast<std::size_t>(next), count});
      next += static_cast<float>(count);
    }
  }
  buffer_view view() const { return {dtype::float32, extents}; }

  std::vector<std::vector<float>> pieces;
  std::vector<extent> extents;
};

struct stretch {
  std::size_t first, count;
  bool operator==(const stretch&) const = default;
};

// The stretches of [first, last), after checking that each pointer of each stretch reaches the elements it must.
std::vector<stretch> stretches(const std::vector<std::vector<std::size_t>>& shapes, std::size_t first, std::size_t last) {
  std::vector<scattered> buffers;
  for (const auto& sizes : shapes) buffers.emplace_back(sizes);
  std::vector<buffer_view> views;
  for (const auto& buffer : buffers) views.push_back(buffer.view());
  std::vector<float*> pointers(views.size());
  std::vector<std::size_t> cursor(views.size());
  std::vector<stretch> found;
  std::size_t at = first;
  for_each_run<float>(views, first, last, std::span{pointers}, std::span{cursor}, [&](std::span<float*> run, std::size_t n) {
    for (const float* pointer : run)
      for (std::size_t i = 0; i < n; ++i) CHECK(pointer[i] == static_cast<float>(at + i));
    found.push_back({at, n});
    at += n;
  });
  return found;
}

}  // namespace

TEST_CASE("a view counts the elements and bytes of all its extents") {
  const scattered buffer{{100, 28}};
  CHECK(buffer.view().count() == 128);
  CHECK(buffer.view().bytes() == 512);
  CHECK(buffer_view{}.count() == 0);
  CHECK(buffer_view{dtype::float64, {}}.bytes() == 0);
  const extent one[] = {{nullptr, 0, 3}};
  CHECK(buffer_view{dtype::int16, one}.bytes() == 6);
}

TEST_CASE("each element is found in the extent that holds it, also between empty ones") {
  const std::vector<std::size_t> shapes[] = {{1}, {5, 3}, {0, 4}, {4, 0}, {2, 0, 0, 1, 7, 0}, {0, 0, 3}, {1, 1, 1, 1, 1, 1, 1, 1, 1}};
  for (const auto& sizes : shapes) {
    const scattered buffer{sizes};
    const buffer_view view = buffer.view();
    for (std::size_t i = 0; i < view.count(); ++i) {
      const std::size_t e = extent_of(view, i);
      REQUIRE(e < sizes.size());
      CHECK(view.extents[e].first <= i);
      CHECK(i < view.extents[e].first + view.extents[e].count);
    }
  }
}

TEST_CASE("a range inside one extent is one stretch") {
  CHECK(stretches({{100}}, 10, 20) == std::vector<stretch>{{10, 10}});
  CHECK(stretches({{100, 28}}, 100, 128) == std::vector<stretch>{{100, 28}});
}

TEST_CASE("a range is cut where an extent of any view ends, and nowhere else") {
  CHECK(stretches({{100, 28}}, 0, 128) == std::vector<stretch>{{0, 100}, {100, 28}});
  CHECK(stretches({{4, 6}, {7, 3}, {10}}, 1, 9) == std::vector<stretch>{{1, 3}, {4, 3}, {7, 2}});
  CHECK(stretches({{5, 5}, {5, 5}}, 0, 10) == std::vector<stretch>{{0, 5}, {5, 5}});
}

TEST_CASE("extents of no elements make no stretches") {
  CHECK(stretches({{0, 3, 0, 0, 2, 0}}, 0, 5) == std::vector<stretch>{{0, 3}, {3, 2}});
  CHECK(stretches({{3, 0, 2}, {0, 5}}, 2, 4) == std::vector<stretch>{{2, 1}, {3, 1}});
}

TEST_CASE("an empty range is no stretch, also in a view without extents") {
  CHECK(stretches({{3}}, 2, 2).empty());
  CHECK(stretches({{3}}, 3, 1).empty());
  CHECK(stretches({{}}, 0, 0).empty());
}

TEST_CASE("every range of views cut in different ways is covered once, in order") {
  const std::vector<std::vector<std::size_t>> shapes = {{3, 0, 8, 2}, {1, 1, 1, 10}, {13}};
  for (std::size_t first = 0; first <= 13; ++first)
    for (std::size_t last = first; last <= 13; ++last) {
      std::size_t covered = 0;
      for (const stretch& s : stretches(shapes, first, last)) {
        CHECK(s.count > 0);
        covered += s.count;
      }
      CHECK(covered == last - first);
    }
}

TEST_CASE("ranges and chunks beyond 2^32 elements are cut and found, without touching the memory") {
  const std::size_t half = (std::size_t{1} << 33) + 5;
  std::byte* const base = reinterpret_cast<std::byte*>(std::uintptr_t{1} << 44);  // an address that nothing is read from
  const extent parts[] = {{base, 0, half}, {base + (std::size_t{1} << 40), half, half}};
  const buffer_view view{dtype::float32, parts};
  CHECK(view.count() == 2 * half);
  CHECK(view.bytes() == 8 * half);
  std::size_t covered = 0;
  for (int chunk = 0; chunk < 7; ++chunk) {
    const std::size_t first = cut(view, 7, chunk), last = cut(view, 7, chunk + 1);
    CHECK((first % 16 == 0 && first == covered));
    float* pointers[1];
    std::size_t cursor[1];
    for_each_run<float>(std::span(&view, 1), first, last, std::span<float*>(pointers), std::span<std::size_t>(cursor),
                        [&](std::span<float*> at, std::size_t n) {
                          const std::byte* expected =
                              covered < half ? base + 4 * covered : base + (std::size_t{1} << 40) + 4 * (covered - half);
                          CHECK(reinterpret_cast<std::byte*>(at[0]) == expected);
                          covered += n;
                        });
  }
  CHECK(covered == 2 * half);
}
