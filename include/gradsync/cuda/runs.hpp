// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// What one launch works on: many stretches of memory, each contiguous in all the views that an operation reads and writes.
///
/// The list goes to the device by value, in the launch's own parameters: nothing is copied beforehand, nothing has to live on, and a
/// captured graph holds its own. 80 runs of two views fit into the 4 KiB that every CUDA version allows; longer lists take more launches.
///
/// Blocks take tiles of equal length, and find the run of their tile by binary search. Where all views of a run begin equally far from a
/// border of 16 bytes, its elements are accessed by 16 bytes, but for a few at both ends; elsewhere one by one, neighbours by neighbours.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace gradsync::detail {

inline constexpr unsigned threads_per_block = 256;
inline constexpr unsigned blocks_at_once = 3;  // on a multiprocessor, at least: leaves 80 registers a thread, so that none is spilled
inline constexpr int most_runs = 80, most_pointers = 200;

// Elements begin .. end - 1 of a run; from `wide` on, as many as make whole vectors can be accessed by 16 bytes.
struct run_tile {
  int run;
  std::size_t begin, wide, end;
};

// Elements of a tile: as many packs as a block's threads work on together.
template <class Body>
inline constexpr std::size_t tile_length = static_cast<std::size_t>(Body::width) * Body::batch* threads_per_block;

struct run_list {
  static constexpr std::uint8_t scalar = 0xFF;  // as a head: this run's views never come to a border of 16 bytes together

  int runs = 0, views = 0;
  std::uint32_t tiles[most_runs];  // of all runs up to this one
  std::uint64_t count[most_runs];  // elements
  std::uint8_t head[most_runs];    // elements before the first border of 16 bytes
  std::byte* at[most_pointers];    // view v of run r begins at at[r * views + v]

  bool has_room() const { return runs < most_runs && (runs + 1) * views <= most_pointers; }
  std::uint32_t blocks() const { return runs == 0 ? 0 : tiles[runs - 1]; }

  // A run of n > 0 elements for `Body`, which says how long its tiles are and how wide its elements.
  template <class Body>
  void push(std::byte* const* pointers, std::size_t n) {
    const std::uint8_t elements = head_of<Body>(pointers);
    const std::size_t first = elements == scalar ? 0 : elements, length = tile_length<Body>;
    tiles[runs] = blocks() + static_cast<std::uint32_t>(n <= first ? 1 : (n - first + length - 1) / length);
    count[runs] = n;
    head[runs] = elements;
    for (int v = 0; v < views; ++v) at[runs * views + v] = pointers[v];
    ++runs;
  }

  __host__ __device__ std::byte* pointer(int run, int view) const { return at[run * views + view]; }

  // The tile of a block, where tiles have `length` elements; the first of a run has its head too.
  __host__ __device__ run_tile tile_of(std::uint32_t block, std::size_t length) const {
    int low = 0, high = runs - 1;
    while (low < high) {
      const int middle = (low + high) / 2;
      if (tiles[middle] > block) high = middle;
      else low = middle + 1;
    }
    const std::size_t k = block - (low == 0 ? 0 : tiles[low - 1]), n = count[low];
    const std::size_t first = head[low] == scalar ? 0 : head[low], next = first + (k + 1) * length;
    const std::size_t begin = k == 0 ? 0 : next - length, end = next < n ? next : n;
    if (head[low] == scalar) return {low, begin, end, end};
    return {low, begin, k > 0 ? begin : first < end ? first : end, end};
  }

 private:
  // Elements until all views are at a border of 16 bytes; `scalar` if they never are together.
  template <class Body>
  std::uint8_t head_of(std::byte* const* pointers) const {
    for (int h = 0; h < Body::width; ++h) {
      const auto off = [&](int v) {
        return (reinterpret_cast<std::uintptr_t>(pointers[v]) + static_cast<std::size_t>(h) * Body::bytes_of(v)) % 16;
      };
      int v = 0;
      while (v < views && off(v) == 0) ++v;
      if (v == views) return static_cast<std::uint8_t>(h);
    }
    return scalar;
  }
};

static_assert(sizeof(run_list) + 1200 <= 4096);  // the rest is for the operation's own numbers

}  // namespace gradsync::detail
