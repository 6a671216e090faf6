// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// What memory allows, and what a training step does to gradients before and after they are summed.
///
/// An all-reduce in place reads and writes each rank's S bytes once, at least: 2 N S bytes over all cores. `scale` moves just these bytes,
/// each core its share, without any exchange: no all-reduce in place can be faster, unless its result is in a nearer cache by luck.
#pragma once

#include <cstddef>
#include <span>

namespace bench {

// Clones for wider vectors than those of the machine that this is built for, which the loader chooses from; not under a sanitizer, whose
// start comes later.
#if defined(__x86_64__) && defined(__linux__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && !defined(__AVX2__) && \
    defined(__GNUC__) && !defined(__clang__)
#define BENCH_WIDEST __attribute__((noinline, target_clones("default", "avx2"), optimize("O3")))
#else
#define BENCH_WIDEST __attribute__((noinline))
#endif

/// Reads and writes each element once.
BENCH_WIDEST inline void scale(float* at, std::size_t n, float by) {
  for (std::size_t i = 0; i < n; ++i) at[i] *= by;
}

/// Writes gradients, as a backward pass does: never zero, and such that sums over ranks are exact.
BENCH_WIDEST inline void produce(float* at, std::size_t n, int rank) {
  const float first = static_cast<float>(1 + rank % 64);
  for (std::size_t i = 0; i < n; ++i) at[i] = first + static_cast<float>(static_cast<int>(i % 64)) * 0.0625f;
}

/// Reads them, as an optimizer does.
BENCH_WIDEST inline float consume(const float* at, std::size_t n) {
  constexpr std::size_t sums = 32;  // as many as additions under way
  float of[sums] = {};
  std::size_t i = 0;
  for (; i + sums <= n; i += sums)
    for (std::size_t k = 0; k < sums; ++k) of[k] += at[i + k];
  for (std::size_t k = 1; k < sums; ++k) of[0] += of[k];
  for (; i < n; ++i) of[0] += at[i];
  return of[0];
}

#undef BENCH_WIDEST

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
