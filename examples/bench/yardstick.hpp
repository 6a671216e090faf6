// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// What memory allows, and what a training step does to gradients before and after they are summed.
///
/// An all-reduce in place reads and writes each rank's S bytes once, at least: 2 N S bytes over all cores. `scale` moves just these bytes,
/// each core its share, without any exchange: no all-reduce in place can be faster, unless its result is in a nearer cache by luck.
#pragma once

#include <cstddef>

#include "gradsync/core/lanes.hpp"

namespace bench {

/// Reads and writes each element once.
inline void scale(float* at, std::size_t n, float by) {
  gradsync::detail::sweep<float>(
      n, [=]<class V>(std::size_t i) __attribute__((always_inline)) {
        V x;
        gradsync::detail::load(x, at + i);
        x *= by;
        gradsync::detail::store(at + i, x);
      });
}

/// Writes gradients, as a backward pass does: never zero, and such that sums over ranks are exact.
inline void produce(float* at, std::size_t n, int rank) {
  const float first = static_cast<float>(1 + rank % 64);
  for (std::size_t i = 0; i < n; ++i) at[i] = first + static_cast<float>(static_cast<int>(i % 64)) * 0.0625f;
}

/// Reads them, as an optimizer does; all but up to three.
inline float consume(const float* at, std::size_t n) {
  alignas(64) float sums[32] = {};
  float* const to = sums;
  const std::size_t quarter = n / 4;
  gradsync::detail::sweep<float>(
      quarter, [=]<class V>(std::size_t i) __attribute__((always_inline)) {
        V sum, x;
        gradsync::detail::load(sum, to);
        for (std::size_t k = 0; k < 4; ++k) {
          gradsync::detail::load(x, at + k * quarter + i);
          sum += x;
        }
        gradsync::detail::store(to, sum);
      });
  float sum = 0;
  for (const float one : sums) sum += one;
  return sum;
}

/// What `produce` wrote to element i of all `size` ranks, summed.
constexpr double produced_sum(std::size_t i, int size) {
  double sum = 0;
  for (int rank = 0; rank < size; ++rank) sum += 1 + rank % 64 + static_cast<double>(i % 64) * 0.0625;
  return sum;
}

/// A value that the compiler may not think away.
template <class T>
inline void keep(const T& value) {
  asm volatile("" : : "g"(value) : "memory");
}

}  // namespace bench
