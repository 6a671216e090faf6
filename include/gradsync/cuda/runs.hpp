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
inline constexpr int most_runs = 80, most_pointers = 200;

// Elements begin .. end - 1 of a run; from `wide` on, as many as make whole vectors can be accessed by 16 bytes.
struct run_tile {
  int run;
  std::size_t begin, wide, end;
};

struct run_list {
  static constexpr std::uint8_t scalar = 0xFF;  // as a head: this run's views never come to a border of 16 bytes together

  int runs = 0, views = 0;
  std::uint32_t tiles[most_runs];  // of all runs up to this one
  std::uint64_t count[most_runs];  // elements
  std::uint8_t head[most_runs];    // elements before the first border of 16 bytes
  std::byte* at[most_pointers];    // view v of run r begins at at[r * views + v]

  bool has_room() const { return runs < most_runs && (runs + 1) * views <= most_pointers; }
  std::uint32_t blocks() const { return runs == 0 ? 0 : tiles[runs - 1]; }

  // A run of n > 0 elements, in tiles of `length`; `head` as head_of says.
  void push(std::byte* const* pointers, std::size_t n, std::uint8_t head_elements, std::size_t length) {
    const std::size_t first = head_elements == scalar ? 0 : head_elements;
    const std::size_t own = n <= first ? 1 : (n - first + length - 1) / length;
    tiles[runs] = blocks() + static_cast<std::uint32_t>(own);
    count[runs] = n;
    head[runs] = head_elements;
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
};

// Elements until all views are at a border of 16 bytes, out of the `width` that fill that many; run_list::scalar if they never are together.
// `bytes_of(v)`: of an element of view v.
template <class BytesOf>
std::uint8_t head_of(std::byte* const* pointers, int views, int width, const BytesOf& bytes_of) {
  for (int h = 0; h < width; ++h) {
    int v = 0;
    while (v < views && (reinterpret_cast<std::uintptr_t>(pointers[v]) + static_cast<std::size_t>(h) * bytes_of(v)) % 16 == 0) ++v;
    if (v == views) return static_cast<std::uint8_t>(h);
  }
  return run_list::scalar;
}

static_assert(sizeof(run_list) + 1200 <= 4096);  // the rest is for the operation's own numbers

}  // namespace gradsync::detail
