// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// Loops over elements by vectors, as wide as the processor has them: a loop's body is written once, for a vector or a single element.
///
/// Elements are independent, so the width never changes a bit. A program for any x86-64 processor chooses at run time, and uses AVX2 where
/// that is; one that is built for a certain processor (-march) uses what that has.
///
///     sweep<float>(n, [=]<class V>(std::size_t i) __attribute__((always_inline)) {
///       V x;
///       load(x, from + i);
///       x *= 2;
///       store(to + i, x);
///     });
#pragma once

#include <cstddef>
#include <cstring>

namespace gradsync::detail {

// The widest vectors this translation unit may use everywhere. Elements are independent, so the width never changes a bit.
#if defined(__AVX512F__)
inline constexpr std::size_t lane_bytes = 64;
#elif defined(__AVX__)
inline constexpr std::size_t lane_bytes = 32;
#else
inline constexpr std::size_t lane_bytes = 16;
#endif

template <class T, std::size_t Bytes>
struct lanes {
  typedef T type __attribute__((vector_size(Bytes)));
};

// Vectors go by reference, and everything between a loop and its loads is inlined at all events: how a vector of 32 bytes is passed depends
// on the processor that a function is compiled for.

template <class V, class T>
__attribute__((always_inline)) inline void load(V& v, const T* from) {
  std::memcpy(&v, from, sizeof v);
}

template <class V, class T>
__attribute__((always_inline)) inline void store(T* to, const V& v) {
  std::memcpy(to, &v, sizeof v);
}

// Rounds a product here and now, so that no compiler fuses it with the addition after it: g++ contracts by default and ignores the standard
// pragma. Where vectors are wider than all of the program may have, there is no such fusion, and no way to say this either.
template <class V>
__attribute__((always_inline)) inline void round_here(V& product) {
#if defined(__AVX512F__)
  asm("" : "+v"(product));
#elif defined(__x86_64__)
  if constexpr (sizeof(V) <= lane_bytes) asm("" : "+x"(product));
#elif defined(__aarch64__)
  asm("" : "+w"(product));
#else
  asm("" : "+m"(product));
#endif
}
template <class T>
inline T rounded(T product) {
  round_here(product);
  return product;
}

// Two vectors, both of which are loaded before one is stored: from a near cache that takes two thirds of the time.
template <class V, class T>
struct twice {
  V low, high;

  __attribute__((always_inline)) twice& operator+=(const twice& other) {
    low += other.low;
    high += other.high;
    return *this;
  }
  __attribute__((always_inline)) twice& operator*=(T by) {
    low *= by;
    high *= by;
    return *this;
  }
  __attribute__((always_inline)) twice& operator/=(T by) {
    low /= by;
    high /= by;
    return *this;
  }
};
template <class V, class T>
__attribute__((always_inline)) inline void load(twice<V, T>& v, const T* from) {
  load(v.low, from);
  load(v.high, from + sizeof(V) / sizeof(T));
}
template <class V, class T>
__attribute__((always_inline)) inline void store(T* to, const twice<V, T>& v) {
  store(to, v.low);
  store(to + sizeof(V) / sizeof(T), v.high);
}
template <class V, class T>
__attribute__((always_inline)) inline void round_here(twice<V, T>& product) {
  round_here(product.low);
  round_here(product.high);
}

// Calls f<V>(i) for pairs of vectors of so many bytes, for a last one, and f<T>(i) for the rest of n elements. V has +=, and *= and /= a T.
template <std::size_t Bytes, class T, class F>
__attribute__((always_inline)) inline void sweep_by(std::size_t n, const F f) {
  using vector = typename lanes<T, Bytes>::type;
  constexpr std::size_t width = Bytes / sizeof(T);
  std::size_t i = 0;
  for (; i + 2 * width <= n; i += 2 * width) f.template operator()<twice<vector, T>>(i);
  for (; i + width <= n; i += width) f.template operator()<vector>(i);
  for (; i < n; ++i) f.template operator()<T>(i);
}

// Programs for any x86-64 processor use wider vectors where there are some: without FMA, which could only change bits. Not those that are
// not optimized: they would gain nothing, and take longer to compile.
#if defined(__x86_64__) && !defined(__AVX__) && defined(__OPTIMIZE__)
template <class T, class F>
__attribute__((target("avx2"))) inline void sweep_avx2(std::size_t n, const F f) {
  sweep_by<32, T>(n, f);
}
inline bool has_avx2() { return __builtin_cpu_supports("avx2") != 0; }
#endif

// f has to be inlined always.
template <class T, class F>
inline void sweep(std::size_t n, const F f) {
#if defined(__x86_64__) && !defined(__AVX__) && defined(__OPTIMIZE__)
  if (n * sizeof(T) >= 64 && has_avx2()) return sweep_avx2<T>(n, f);
#endif
  sweep_by<lane_bytes, T>(n, f);
}

}  // namespace gradsync::detail
