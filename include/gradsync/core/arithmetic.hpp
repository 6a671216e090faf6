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
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#include "gradsync/core/lanes.hpp"
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

// The tree over terms First .. First+Count-1, into the first of them.
template <int First, int Count, class V>
__attribute__((always_inline)) inline void sum_tree(V* terms) {
  if constexpr (Count > 1) {
    constexpr int left = left_terms(Count);
    sum_tree<First, left>(terms);
    sum_tree<First + left, Count - left>(terms);
    terms[First] += terms[First + left];
  }
}

// x / by, as x · 1/by where that is the same: where both are powers of two.
template <class T>
struct quotient {
  explicit quotient(T total) : by(total), inverse(T{1} / total), exact(is_power_of_two(total)) {}

  template <class V>
  __attribute__((always_inline)) void operator()(V& x) const {
    if (exact) x *= inverse;
    else x /= by;
  }

  // Of those in the middle of the range, whose inverses are in it too.
  static bool is_power_of_two(double x) {
    const auto bits = std::bit_cast<std::uint64_t>(x);
    const std::uint64_t exponent = bits >> 52, middle = 1023;
    return (bits << 12) == 0 && exponent > middle - 64 && exponent < middle + 64;
  }

  T by, inverse;
  bool exact;
};

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
  detail::sweep<T>(
      n, [=]<class V>(std::size_t i) __attribute__((always_inline)) {
        V x, y;
        detail::load(x, a + i);
        detail::load(y, b + i);
        x += y;
        detail::store(to + i, x);
      });
}

/// to[i] = (a[i] + b[i]) / Σw. `to` may be a or b.
template <class T>
inline void add_divide(T* to, const T* a, const T* b, std::size_t n, divisor<T> by) {
  if (!by.narrows()) {
    for (std::size_t i = 0; i < n; ++i) to[i] = by(a[i] + b[i]);
    return;
  }
  detail::sweep<T>(
      n, [ =, over = detail::quotient<T>(by.narrow) ]<class V>(std::size_t i) __attribute__((always_inline)) {
        V x, y;
        detail::load(x, a + i);
        detail::load(y, b + i);
        x += y;
        over(x);
        detail::store(to + i, x);
      });
}

/// to[i] = from[i] / Σw. `to` may be `from`.
template <class T>
inline void divide(T* to, const T* from, std::size_t n, divisor<T> by) {
  if (!by.narrows()) {
    for (std::size_t i = 0; i < n; ++i) to[i] = by(from[i]);
    return;
  }
  detail::sweep<T>(
      n, [ =, over = detail::quotient<T>(by.narrow) ]<class V>(std::size_t i) __attribute__((always_inline)) {
        V x;
        detail::load(x, from + i);
        over(x);
        detail::store(to + i, x);
      });
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
  T of_zeros[128 / sizeof(T)];  // the widest V: nvcc knows no constant of such a type
  for (T& zero : of_zeros) zero = static_cast<T>(-0.0);
  const T* const neutral = of_zeros;
  detail::sweep<T>(
      n, [=]<class V>(std::size_t i) __attribute__((always_inline)) {
        V x, y;
        if (weight != 0) {
          detail::load(x, leaf + i);
          x *= narrow;
          detail::round_here(x);
        } else {
          detail::load(x, neutral);
        }
        for (int k = 0; k < count; ++k) {
          detail::load(y, partials[k] + i);
          y += x;
          x = y;
        }
        detail::store(to + i, x);
      });
}

namespace detail {

inline constexpr int written_out = 8;     // trees of up to this many terms stay in registers, if they are among those that are compiled
inline constexpr std::size_t tile = 256;  // elements of a partial sum of wider trees: stays in the first cache level

// One pass over N inputs: scale, add as a tree, divide; to all N of them, or to one place.
template <int N, class T>
struct tree_pass {
  T* at[N];
  T scales[N];
  bool scaled;
  quotient<T> over;
  T* only;  // null: to all

  template <class V>
  __attribute__((always_inline)) void operator()(std::size_t i) const {
    V x[N];
    each([&](auto j) __attribute__((always_inline)) { load(x[j], at[j] + i); });
    if (scaled) each([&](auto j) __attribute__((always_inline)) { x[j] *= scales[j], round_here(x[j]); });
    sum_tree<0, N>(x);
    over(x[0]);
    if (only != nullptr) store(only + i, x[0]);
    else each([&](auto j) __attribute__((always_inline)) { store(at[j] + i, x[0]); });
  }

  // Written out whatever the compiler is told to optimize for: the terms shall stay in registers.
  template <class F>
  __attribute__((always_inline)) static void each(F&& f) {
    [&]<int... J>(std::integer_sequence<int, J...>) __attribute__((always_inline)) { (f(std::integral_constant<int, J>{}), ...); }
    (std::make_integer_sequence<int, N>{});
  }
};

template <class T>
bool sum_in_registers(T* const* at, int count, const T* scales, T total, std::size_t n, T* only) {
  const auto with = [&]<int N>(std::integral_constant<int, N>) {
    if (count != N) return false;
    tree_pass<N, T> pass{.at = {}, .scales = {}, .scaled = scales != nullptr, .over = quotient<T>(total), .only = only};
    for (int j = 0; j < N; ++j) pass.at[j] = at[j], pass.scales[j] = scales != nullptr ? scales[j] : T{1};
    sweep<T>(n, pass);
    return true;
  };
  // Others are rare, and each of them takes as long to compile as all else of a pass; without optimization nothing stays in registers.
#if defined(__OPTIMIZE__)
  using terms = std::integer_sequence<int, 1, 2, 3, 4, written_out>;
#else
  using terms = std::integer_sequence<int, 1, 2>;
#endif
  return [&]<int... N>(std::integer_sequence<int, N...>) { return (with(std::integral_constant<int, N>{}) || ...); }
  (terms{});
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

namespace detail {

// To all inputs, or to one place.
template <class T>
void spread(T* const* at, int count, T* only, std::size_t from, const T* sum, std::size_t n) {
  if (only != nullptr) std::memcpy(only + from, sum, n * sizeof(T));
  else
    for (int j = 0; j < count; ++j) std::memcpy(at[j] + from, sum, n * sizeof(T));
}

}  // namespace detail

/// The fused slice of an all-reduce: each of n elements becomes the canonical tree over the `count` inputs. In all of them, or in `only`.
template <reduce_op Op, class T>
void reduce_all(T* const* at, int count, std::size_t n, T* only = nullptr) {
  T sum[detail::tile];
  for (std::size_t from = 0; from < n; from += detail::tile) {
    const std::size_t m = n - from < detail::tile ? n - from : detail::tile;
    detail::reduce_tile<Op>(at, static_cast<const double*>(nullptr), 0, count, from, m, sum);
    detail::spread(at, count, only, from, sum, m);
  }
}

/// The same for gradients: input j times scales[j] first (null: all 1), and the sum over Σw last. 2 bytes of memory traffic a byte and
/// rank.
template <class T>
void mean_all(T* const* at, const double* scales, int count, divisor<T> by, std::size_t n, T* only = nullptr) {
  bool scaled = false, exact = by.narrows();
  T narrow[detail::written_out] = {};
  for (int j = 0; scales != nullptr && j < count; ++j) {
    scaled = scaled || scales[j] != 1;
    if (j < detail::written_out) narrow[j] = static_cast<T>(scales[j]);
    exact = exact && static_cast<double>(static_cast<T>(scales[j])) == scales[j];
  }
  if (exact && detail::sum_in_registers(at, count, scaled ? narrow : nullptr, by.narrow, n, only)) return;
  T sum[detail::tile];
  for (std::size_t from = 0; from < n; from += detail::tile) {
    const std::size_t m = n - from < detail::tile ? n - from : detail::tile;
    detail::reduce_tile<reduce_op::sum>(at, scaled ? scales : nullptr, 0, count, from, m, sum);
    divide(sum, sum, m, by);
    detail::spread(at, count, only, from, sum, m);
  }
}

/// The tree over `count` inputs, divided, into at[to] alone: one of the inputs, or another place behind them.
template <class T>
void join_all(T* const* at, int count, int to, divisor<T> by, std::size_t n) {
  mean_all(at, nullptr, count, by, n, at[to]);
}

}  // namespace gradsync
