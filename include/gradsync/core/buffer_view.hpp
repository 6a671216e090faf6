// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// A buffer that is not owned and need not be contiguous: elements 0 .. count-1 of one type, laid over a list of extents.
///
/// Gradients are reduced where they lie, in however many pieces the user's types keep them. An algorithm speaks of element ranges;
/// `for_each_run` turns a range into the stretches that are contiguous in all the views at once.
///
///     extent e[] = {{a, 0, 100}, {b, 100, 28}};
///     buffer_view view{dtype::float32, e};          // 128 floats: 100 at a, then 28 at b
#pragma once

#include <cstddef>
#include <span>

#include "gradsync/core/dtype.hpp"
#include "gradsync/core/series.hpp"

namespace gradsync {

/// `count` contiguous elements at `data`, which are elements `first` .. `first` + count - 1 of their buffer.
struct extent {
  std::byte* data = nullptr;
  std::size_t first = 0;
  std::size_t count = 0;
};

/// Of a whole buffer that is contiguous.
template <element T>
extent extent_over(std::span<T> elements) {
  return {reinterpret_cast<std::byte*>(elements.data()), 0, elements.size()};
}

/// The extents follow each other without gaps; the list must outlive the view.
struct buffer_view {
  dtype type = dtype::float32;
  series_view<extent> extents;

  constexpr std::size_t count() const { return extents.empty() ? 0 : extents.back().first + extents.back().count; }
  constexpr std::size_t bytes() const { return count() * size_of(type); }
};

/// The element at which chunk i of `chunks` begins; chunk `chunks` begins at the end. Equal chunks, cut at 64 bytes so that no two ranks
/// write to one cache line: the last ones may be shorter, or empty.
constexpr std::size_t cut(const buffer_view& view, int chunks, int i) {
  const std::size_t n = view.count(), line = 64 / size_of(view.type), parts = static_cast<std::size_t>(chunks);
  const std::size_t first = ((n + parts - 1) / parts + line - 1) / line * line * static_cast<std::size_t>(i);
  return first < n ? first : n;
}

/// The extent that holds element `i` (which must be inside the view), by binary search.
constexpr std::size_t extent_of(const buffer_view& view, std::size_t i) {
  std::size_t low = 0, high = view.extents.size();
  while (high - low > 1) {
    const std::size_t middle = (low + high) / 2;
    (view.extents[middle].first <= i ? low : high) = middle;
  }
  return low;
}

/// Calls `f(pointers, n)` for each stretch of elements [first, last) that is contiguous in all the views: `pointers[v]` is where the
/// stretch begins in view v, n its number of elements. `pointers` and `cursor` are scratch of one entry a view.
template <class T, class F>
void for_each_run(series_view<buffer_view> views, std::size_t first, std::size_t last, std::span<T*> pointers,
                  std::span<std::size_t> cursor, F&& f) {
  if (first >= last) return;
  for (std::size_t v = 0; v < views.size(); ++v) cursor[v] = extent_of(views[v], first);
  while (first < last) {
    std::size_t n = last - first;
    for (std::size_t v = 0; v < views.size(); ++v) {
      auto extents = views[v].extents;
      while (extents[cursor[v]].first + extents[cursor[v]].count <= first) ++cursor[v];
      const extent& e = extents[cursor[v]];
      pointers[v] = reinterpret_cast<T*>(e.data) + (first - e.first);
      if (const std::size_t left = e.first + e.count - first; left < n) n = left;
    }
    f(pointers, n);
    first += n;
  }
}

}  // namespace gradsync
