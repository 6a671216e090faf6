// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// The kernels, and the bodies in them. A body says what becomes of one element; one kernel does it to all elements of a list of runs.
///
/// Bodies are `__host__ __device__` functions of packs, as many elements as 16 bytes hold or a single one, so the host runs the same lines.
/// All of them give the bits of core/arithmetic.hpp: cuda/arithmetic.hpp has the rounded operations. A thread computes several packs before
/// it stores the first, so that their loads are under way together; elements are independent, so an output may be one of the inputs.
///
///     run_list list = …;
///     launch_map(stream, divide_body<float>({.value = 3}), list);   // cuda/launch.hpp; view 0 = view 1 / 3
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <span>
#include <type_traits>

#include "gradsync/core/arithmetic.hpp"
#include "gradsync/cuda/arithmetic.hpp"
#include "gradsync/cuda/pack.hpp"
#include "gradsync/cuda/runs.hpp"

namespace gradsync {

/// A number that kernels find in device memory when they run, so that a captured graph does not freeze it; or one that is known now.
struct device_number {
  const double* at = nullptr;
  double value = 1;  ///< where `at` is null

  __host__ __device__ double read() const { return at != nullptr ? *at : value; }
  friend bool operator==(const device_number&, const device_number&) = default;
};

namespace detail {

// What most bodies have: all views of one type, one output, and nothing to prepare.
template <class T, int Batch>
struct uniform_body {
  using element = T;
  static constexpr int width = static_cast<int>(16 / sizeof(T));
  static constexpr int batch = Batch;  // packs that a thread works on together
  static constexpr bool everywhere = false;
  static constexpr std::size_t bytes_of(int) { return sizeof(T); }
};

// ---- bodies

/// view 0 = view 1.
template <class T>
struct copy_body : uniform_body<T, 4> {
  __host__ __device__ const copy_body& prepared() const { return *this; }
  template <int W>
  __host__ __device__ sealed_pack<T, W> operator()(const site<W>& here) const {
    return here.template load_sealed<T>(1);
  }
  friend bool operator==(const copy_body&, const copy_body&) { return true; }
};

/// view 0 = a number.
struct assign_body : uniform_body<double, 1> {
  double value;
  explicit assign_body(double number) : value(number) {}
  __host__ __device__ const assign_body& prepared() const { return *this; }
  template <int W>
  __host__ __device__ pack<double, W> operator()(const site<W>&) const {
    pack<double, W> x;
    for (int i = 0; i < W; ++i) x.lane[i] = value;
    return x;
  }
  friend bool operator==(const assign_body& a, const assign_body& b) { return a.value == b.value; }
};

/// view 0 = view k+1 + (… + (view 2 + view 1 · weight)). Partial sums: `Partials`, or as many as there are views where that is negative.
template <class T, int Partials>
struct fold_body : uniform_body<T, Partials == 0 ? 4 : 2> {
  double weight;
  explicit fold_body(double by) : weight(by) {}

  struct prepared_body {
    rounded::factor<T> by;
    template <int W>
    __host__ __device__ pack<T, W> operator()(const site<W>& here) const {
      pack<T, W> x;
      if (by.wide != 0) x = here.template load<T>(1);
      for (int i = 0; i < W; ++i) x.lane[i] = by.wide != 0 ? by(x.lane[i]) : static_cast<T>(-0.0);
      const int views = Partials < 0 ? here.list.views : Partials + 2;
      for (int v = 2; v < views; ++v) x = sum_of(here.template load<T>(v), x);
      return x;
    }
  };
  __host__ __device__ prepared_body prepared() const { return {rounded::factor<T>(weight)}; }
  friend bool operator==(const fold_body& a, const fold_body& b) { return a.weight == b.weight; }
};

/// view 0 = view 1 / Σw.
template <class T>
struct divide_body : uniform_body<T, 4> {
  device_number total;
  explicit divide_body(const device_number& by) : total(by) {}

  struct prepared_body {
    rounded::divisor<T> by;
    template <int W>
    __host__ __device__ pack<T, W> operator()(const site<W>& here) const {
      pack<T, W> x = here.template load<T>(1);
      for (int i = 0; i < W; ++i) x.lane[i] = by(x.lane[i]);
      return x;
    }
  };
  __host__ __device__ prepared_body prepared() const { return {rounded::divisor<T>(total.read())}; }
  friend bool operator==(const divide_body& a, const divide_body& b) { return a.total == b.total; }
};

template <int Count>
inline constexpr int left_sources = left_terms(Count);

template <class Leaf>
using pack_of = std::invoke_result_t<const Leaf&, int>;

template <class T, int W>
__host__ __device__ pack<T, W> sum_of(pack<T, W> a, const pack<T, W>& b) {
  for (int i = 0; i < W; ++i) a.lane[i] = rounded::add(a.lane[i], b.lane[i]);
  return a;
}

// The canonical tree over the sources from `First` on; leaf(s) is the pack of source s.
template <int First, int Count, class Leaf>
__host__ __device__ pack_of<Leaf> tree_of_packs(const Leaf& leaf) {
  if constexpr (Count == 1) {
    return leaf(First);
  } else {
    constexpr int left = left_sources<Count>;
    return sum_of(tree_of_packs<First, left>(leaf), tree_of_packs<First + left, Count - left>(leaf));
  }
}

// The same over `count` sources, at most 2^Levels.
template <int Levels, class Leaf>
__host__ __device__ pack_of<Leaf> tree_of_few(const Leaf& leaf, int first, int count) {
  if constexpr (Levels == 0) {
    return leaf(first);
  } else {
    constexpr int half = 1 << (Levels - 1);
    const auto left = tree_of_few<Levels - 1>(leaf, first, count < half ? count : half);
    return count > half ? sum_of(left, tree_of_few<Levels - 1>(leaf, first + half, count - half)) : left;
  }
}

inline constexpr int most_sources = 64;  // of one pass; more ranks than that share no machine

// The same over up to 64, by eights: a sum is kept for each power of two, in registers, until its neighbour comes.
template <class Leaf>
__host__ __device__ pack_of<Leaf> tree_of_many(const Leaf& leaf, int count) {
  const int eights = (count + 7) / 8;
  pack_of<Leaf> sum, one, two, four;
  for (int b = 0; b < eights; ++b) {
    sum = tree_of_few<3>(leaf, 8 * b, count - 8 * b < 8 ? count - 8 * b : 8);
    if (b + 1 == eights) break;
    if ((b & 1) == 0) {
      one = sum;
    } else if ((b & 2) == 0) {
      two = sum_of(one, sum);
    } else if ((b & 4) == 0) {
      four = sum_of(two, sum_of(one, sum));
    }
  }
  if (((eights - 1) & 1) != 0) sum = sum_of(one, sum);
  if (((eights - 1) & 2) != 0) sum = sum_of(two, sum);
  if (((eights - 1) & 4) != 0) sum = sum_of(four, sum);
  return sum;
}

// The tree over the sources; `Sources` of them, or `count` where that is 0.
template <int Sources, class Leaf>
__host__ __device__ pack_of<Leaf> tree_over(int count, const Leaf& leaf) {
  if constexpr (Sources > 0) return tree_of_packs<0, Sources>(leaf);
  else return tree_of_many(leaf, count);
}

/// view 0 = the tree over views 1 .. Sources, divided by Σw.
template <class T, int Sources>
struct join_body : uniform_body<T, Sources == 2 ? 2 : 1> {
  device_number total;
  explicit join_body(const device_number& by) : total(by) {}

  struct prepared_body {
    rounded::divisor<T> by;
    template <int W>
    __host__ __device__ pack<T, W> operator()(const site<W>& here) const {
      struct {
        const site<W>& from;
        __host__ __device__ pack<T, W> operator()(int source) const { return from.template load<T>(source + 1); }
      } leaf{here};
      pack<T, W> x = tree_over<Sources>(here.list.views - 1, leaf);
      if (by.wide == 1) return x;
      for (int i = 0; i < W; ++i) x.lane[i] = by(x.lane[i]);
      return x;
    }
  };
  __host__ __device__ prepared_body prepared() const { return {rounded::divisor<T>(total.read())}; }
  friend bool operator==(const join_body& a, const join_body& b) { return a.total == b.total; }
};

/// Every view = the tree over (view s · scale s), divided by Σw: the fused slice of an all-reduce between peers.
template <class T, int Sources>
struct mean_body : uniform_body<T, 1> {
  static constexpr bool everywhere = true;
  device_number total;
  rounded::factor<T> scale[Sources > 0 ? Sources : most_sources];
  mean_body(const device_number& by, std::span<const double> scales) : total(by) {
    for (std::size_t s = 0; s < scales.size(); ++s) scale[s] = rounded::factor<T>(scales[s]);
  }

  struct prepared_body {
    const mean_body& all;
    rounded::divisor<T> by;
    template <int W>
    __host__ __device__ pack<T, W> operator()(const site<W>& here) const {
      struct {
        const mean_body& all;
        const site<W>& from;
        __host__ __device__ pack<T, W> operator()(int source) const {
          pack<T, W> x = from.template load<T>(source);
          for (int i = 0; i < W; ++i) x.lane[i] = all.scale[source](x.lane[i]);
          return x;
        }
      } leaf{all, here};
      pack<T, W> x = tree_over<Sources>(here.list.views, leaf);
      for (int i = 0; i < W; ++i) x.lane[i] = by(x.lane[i]);
      return x;
    }
  };
  __host__ __device__ prepared_body prepared() const { return {*this, rounded::divisor<T>(total.read())}; }
  friend bool operator==(const mean_body&, const mean_body&) { return false; }  // two passes are not one launch
};

}  // namespace detail
}  // namespace gradsync
