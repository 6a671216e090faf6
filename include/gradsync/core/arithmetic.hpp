// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// The additions, products and divisions behind every sum, on contiguous host memory.
///
/// Bits come first: each element is computed by the same expression whether it sits in a vector or in the tail, a product is rounded before
/// it is added (never fused), several terms are added in the canonical binary tree, and a quotient is rounded once. The tree over
/// n terms has the largest power of two below n at its left: ((0+1)+(2+3))+4 for five.
#pragma once

#include <bit>
#include <cstddef>
#include <cstring>
#include <type_traits>
#include <utility>

#include "gradsync/core/reduce_op.hpp"

#ifdef __FAST_MATH__
#error "gradsync: -ffast-math reorders additions, so replicas would no longer agree; compile without it"
#endif

namespace gradsync {

/// Terms in the left half of the canonical tree over `count` terms.
constexpr int left_terms(int count) { return static_cast<int>(std::bit_ceil(static_cast<unsigned>(count)) / 2); }

/// Divides by Σw, rounding once: in T where Σw is exact there (the same bits as through double, in half the time), in double otherwise.
/// Σw = 0 means that nobody contributed: the quotient is +0.
template <class T>
struct divisor {
  explicit divisor(double total_weight) : total(total_weight), narrow(static_cast<T>(total_weight)) {}
  bool narrows() const { return static_cast<double>(narrow) == total && total != 0; }
  T operator()(T x) const { return total == 0 ? T{} : narrows() ? x / narrow : static_cast<T>(static_cast<double>(x) / total); }

  double total;
  T narrow;
};

namespace detail {

// The widest vectors this translation unit may use. Elements are independent, so the width never changes a bit.
#if defined(__AVX512F__)
inline constexpr std::size_t lane_bytes = 64;
#elif defined(__AVX__)
inline constexpr std::size_t lane_bytes = 32;
#else
inline constexpr std::size_t lane_bytes = 16;
#endif

template <class T>
struct lanes {
  typedef T type __attribute__((vector_size(lane_bytes)));
};

template <class V, class T>
inline V load(const T* from) {
  V v;
  std::memcpy(&v, from, sizeof v);
  return v;
}

template <class V, class T>
inline void store(T* to, V v) {
  std::memcpy(to, &v, sizeof v);
}

template <class V, class T>
inline V splat(T x) {
  if constexpr (std::is_same_v<V, T>) {
    return x;
  } else {
    V v{};
    for (std::size_t i = 0; i < sizeof(V) / sizeof(T); ++i) v[i] = x;
    return v;
  }
}

// A product that no compiler fuses with the addition after it: g++ contracts by default and ignores the standard pragma.
template <class V>
inline V rounded(V product) {
#if defined(__AVX512F__)
  asm("" : "+v"(product));
#elif defined(__x86_64__)
  asm("" : "+x"(product));
#elif defined(__aarch64__)
  asm("" : "+w"(product));
#else
  asm("" : "+m"(product));
#endif
  return product;
}

// Calls f<V>(i) for whole vectors and f<T>(i) for the rest of n elements.
template <class T, class F>
inline void sweep(std::size_t n, F&& f) {
  using vector = typename lanes<T>::type;
  constexpr std::size_t width = sizeof(vector) / sizeof(T);
  std::size_t i = 0;
  for (; i + width <= n; i += width) f.template operator()<vector>(i);
  for (; i < n; ++i) f.template operator()<T>(i);
}

template <int First, int Count, class V>
inline V tree_sum(const V* terms) {
  if constexpr (Count == 1) return terms[First];
  else return tree_sum<First, left_terms(Count)>(terms) + tree_sum<First + left_terms(Count), Count - left_terms(Count)>(terms);
}

}  // namespace detail

/// x · weight, rounded to T once. Where the weight is not exact in T the product goes through double.
template <class T>
inline T weighted(T x, double weight) {
  const T narrow = static_cast<T>(weight);
  if (static_cast<double>(narrow) == weight) return detail::rounded(x * narrow);
  return static_cast<T>(static_cast<double>(x) * weight);
}

/// to[i] = a[i] + b[i]. `to` may be a or b.
template <class T>
inline void add(T* to, const T* a, const T* b, std::size_t n) {
  detail::sweep<T>(n, [=]<class V>(std::size_t i) { detail::store<V>(to + i, detail::load<V>(a + i) + detail::load<V>(b + i)); });
}

/// to[i] = (a[i] + b[i]) / Σw. `to` may be a or b.
template <class T>
inline void add_divide(T* to, const T* a, const T* b, std::size_t n, divisor<T> by) {
  if (!by.narrows()) {
    for (std::size_t i = 0; i < n; ++i) to[i] = by(a[i] + b[i]);
    return;
  }
  detail::sweep<T>(n, [=]<class V>(std::size_t i) {
    detail::store<V>(to + i, (detail::load<V>(a + i) + detail::load<V>(b + i)) / detail::splat<V>(by.narrow));
  });
}

/// to[i] = from[i] / Σw. `to` may be `from`.
template <class T>
inline void divide(T* to, const T* from, std::size_t n, divisor<T> by) {
  if (!by.narrows()) {
    for (std::size_t i = 0; i < n; ++i) to[i] = by(from[i]);
    return;
  }
  detail::sweep<T>(n, [=]<class V>(std::size_t i) { detail::store<V>(to + i, detail::load<V>(from + i) / detail::splat<V>(by.narrow)); });
}

/// to[i] = partials[k-1][i] + (… + (partials[0][i] + leaf[i] · weight)): a leaf of the tree over micro-steps and the partial sums it
/// completes, smallest first. `to` may be the leaf or one of the partial sums. A leaf of weight 0 counts as -0, the neutral element, and
/// is not read.
template <class T>
inline void fold(T* to, const T* leaf, double weight, const T* const* partials, int count, std::size_t n) {
  const T narrow = static_cast<T>(weight);
  if (weight != 0 && static_cast<double>(narrow) != weight) {
    for (std::size_t i = 0; i < n; ++i) {
      T x = weighted(leaf[i], weight);
      for (int k = 0; k < count; ++k) x = partials[k][i] + x;
      to[i] = x;
    }
    return;
  }
  detail::sweep<T>(n, [=]<class V>(std::size_t i) {
    V x = detail::splat<V>(static_cast<T>(-0.0));
    if (weight != 0) x = detail::rounded<V>(detail::load<V>(leaf + i) * detail::splat<V>(narrow));
    for (int k = 0; k < count; ++k) x = detail::load<V>(partials[k] + i) + x;
    detail::store<V>(to + i, x);
  });
}

namespace detail {

inline constexpr int written_out = 8;     // trees up to this many terms stay in registers
inline constexpr std::size_t tile = 256;  // elements of a partial sum of wider trees: stays in the first cache level

// One pass over N inputs: scale, add as a tree, divide; to all N outputs, which are the inputs.
template <int N, bool Scaled, class T>
void reduce_in_registers(T* const* at, const T* scales, T total, std::size_t n) {
  constexpr std::size_t terms = N;
  T* p[terms];
  T s[terms];
  for (int j = 0; j < N; ++j) p[j] = at[j], s[j] = Scaled ? scales[j] : T{1};
  sweep<T>(n, [&]<class V>(std::size_t i) {
    V x[terms];
    for (int j = 0; j < N; ++j) {
      x[j] = load<V>(p[j] + i);
      if constexpr (Scaled) x[j] = rounded<V>(x[j] * splat<V>(s[j]));
    }
    const V mean = tree_sum<0, N>(x) / splat<V>(total);
    for (int j = 0; j < N; ++j) store<V>(p[j] + i, mean);
  });
}

template <class T>
bool reduce_in_registers(int count, bool scaled, T* const* at, const T* scales, T total, std::size_t n) {
  auto with = [&]<int N>(std::integral_constant<int, N>) {
    if (count != N) return false;
    scaled ? reduce_in_registers<N, true>(at, scales, total, n) : reduce_in_registers<N, false>(at, scales, total, n);
    return true;
  };
  return [&]<int... N>(std::integer_sequence<int, N...>) { return (with(std::integral_constant<int, N + 1>{}) || ...); }
  (std::make_integer_sequence<int, written_out>{});
}

// The tree over terms first .. first+count-1 of at most one tile, at offset `from` of each input.
template <reduce_op Op, class T>
void reduce_tile(T* const* at, const double* scales, int first, int count, std::size_t from, std::size_t n, T* sum) {
  if (count == 1) {
    const T* x = at[first] + from;
    const double scale = scales != nullptr ? scales[first] : 1;
    std::memcpy(sum, x, n * sizeof(T));
    if constexpr (std::is_floating_point_v<T>)
      for (std::size_t i = 0; scale != 1 && i < n; ++i) sum[i] = weighted(sum[i], scale);
    return;
  }
  const int left = left_terms(count);
  T right[tile];
  reduce_tile<Op>(at, scales, first, left, from, n, sum);
  reduce_tile<Op>(at, scales, first + left, count - left, from, n, right);
  for (std::size_t i = 0; i < n; ++i) sum[i] = apply<Op>(sum[i], right[i]);
}

}  // namespace detail

/// The fused slice of an all-reduce: each of n elements becomes the canonical tree over the `count` inputs, in all of them.
template <reduce_op Op, class T>
void reduce_all(T* const* at, int count, std::size_t n) {
  T sum[detail::tile];
  for (std::size_t from = 0; from < n; from += detail::tile) {
    const std::size_t m = n - from < detail::tile ? n - from : detail::tile;
    detail::reduce_tile<Op>(at, static_cast<const double*>(nullptr), 0, count, from, m, sum);
    for (int j = 0; j < count; ++j) std::memcpy(at[j] + from, sum, m * sizeof(T));
  }
}

/// The same for gradients: input j times scales[j] first (null: all 1), and the sum over Σw last. 2 bytes of memory traffic a byte and
/// rank.
template <class T>
void mean_all(T* const* at, const double* scales, int count, divisor<T> by, std::size_t n) {
  bool scaled = false, exact = by.narrows();
  T narrow[detail::written_out] = {};
  for (int j = 0; scales != nullptr && j < count; ++j) {
    scaled = scaled || scales[j] != 1;
    if (j < detail::written_out) narrow[j] = static_cast<T>(scales[j]);
    exact = exact && static_cast<double>(static_cast<T>(scales[j])) == scales[j];
  }
  if (exact && detail::reduce_in_registers(count, scaled, at, narrow, by.narrow, n)) return;
  T sum[detail::tile];
  for (std::size_t from = 0; from < n; from += detail::tile) {
    const std::size_t m = n - from < detail::tile ? n - from : detail::tile;
    detail::reduce_tile<reduce_op::sum>(at, scaled ? scales : nullptr, 0, count, from, m, sum);
    divide(sum, sum, m, by);
    for (int j = 0; j < count; ++j) std::memcpy(at[j] + from, sum, m * sizeof(T));
  }
}

/// The tree over `count` inputs, divided, into at[to] alone: one of the inputs, or another place behind them.
template <class T>
void join_all(T* const* at, int count, int to, divisor<T> by, std::size_t n) {
  T sum[detail::tile];
  for (std::size_t from = 0; from < n; from += detail::tile) {
    const std::size_t m = n - from < detail::tile ? n - from : detail::tile;
    detail::reduce_tile<reduce_op::sum>(at, static_cast<const double*>(nullptr), 0, count, from, m, sum);
    if (by.total != 1) divide(sum, sum, m, by);
    std::memcpy(at[to] + from, sum, m * sizeof(T));
  }
}

}  // namespace gradsync
