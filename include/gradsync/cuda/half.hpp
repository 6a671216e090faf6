// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// Kernels for 16-bit gradients: bfloat16 and float16 (`__nv_bfloat16`, `__half`) on the wire, float32 in every sum.
///
/// `cast` scales, converts and, where asked, measures in the same pass: the sum of squares of what it read, scaled and not yet rounded, and
/// whether all of it was finite. Both stay on the device, where a clipping or loss-scaling optimizer reads them; the sum is added in double
/// in a fixed order, so its bits repeat. `sum_narrow` adds several sources in the canonical tree.
///
/// Views that share a border of 16 bytes are read and written by 16 bytes; a push names the body that will walk the list.
///
///     detail::run_list list;  list.views = 2;
///     list.push<detail::cast_body<__nv_bfloat16, float>>(pointers, n);   // to, from; has_room() says whether there is room for another
///     cast<__nv_bfloat16, float>(stream, list, {.value = 1024}, {.squared_norm = norm, .non_finite = flag, .scratch = scratch});
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime_api.h>
#include <device_launch_parameters.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "gradsync/cuda/arithmetic.hpp"
#include "gradsync/cuda/kernels.hpp"
#include "gradsync/cuda/launch.hpp"
#include "gradsync/cuda/pack.hpp"
#include "gradsync/cuda/runs.hpp"

namespace gradsync {

/// What `cast` may leave in device memory beside its result. Not measured where squared_norm is null.
struct cast_measures {
  double* squared_norm = nullptr;  ///< the sum over all elements is added to it
  unsigned* non_finite = nullptr;  ///< becomes 1 if some element is infinite or not a number; else it stays
  double* scratch = nullptr;       ///< one for each block of the launch: list.blocks()
};

namespace detail {

__host__ __device__ inline float as_float(float x) { return x; }
__host__ __device__ inline float as_float(__nv_bfloat16 x) { return __bfloat162float(x); }
__host__ __device__ inline float as_float(__half x) { return __half2float(x); }

template <class T>
__host__ __device__ T from_float(float x) {
  if constexpr (std::is_same_v<T, float>) return x;
  else if constexpr (std::is_same_v<T, __nv_bfloat16>) return __float2bfloat16_rn(x);
  else return __float2half_rn(x);
}

template <class T, class U, int W>
__host__ __device__ pack<T, W> converted(const pack<U, W>& from) {
  pack<T, W> to;
  for (int i = 0; i < W; ++i) to.lane[i] = from_float<T>(as_float(from.lane[i]));
  return to;
}

/// view 0 = view 1 · scale, rounded to float32, then to `To`.
template <class To, class From>
struct cast_body {
  static constexpr int width = static_cast<int>(16 / (sizeof(To) < sizeof(From) ? sizeof(To) : sizeof(From)));
  static constexpr int batch = 2;
  static constexpr bool everywhere = false;
  static constexpr std::size_t bytes_of(int view) { return view == 0 ? sizeof(To) : sizeof(From); }
  device_number scale;

  struct prepared_body {
    rounded::factor<float> by;
    template <int W>
    __host__ __device__ pack<float, W> scaled(const site<W>& here) const {
      pack<float, W> x = converted<float>(here.template load<From>(1));
      for (int i = 0; by.wide != 1 && i < W; ++i) x.lane[i] = by(x.lane[i]);
      return x;
    }
    template <int W>
    __host__ __device__ pack<To, W> operator()(const site<W>& here) const {
      return converted<To>(scaled(here));
    }
  };
  __host__ __device__ prepared_body prepared() const { return {rounded::factor<float>(scale.read())}; }
};

// The same, and adds up the squares of one thread's elements. A square of a float is exact in double.
template <class To, class From>
struct measuring_cast {
  typename cast_body<To, From>::prepared_body cast;
  double& squares;
  template <int W>
  __host__ __device__ pack<To, W> operator()(const site<W>& here) const {
    const pack<float, W> x = cast.scaled(here);
    for (int i = 0; i < W; ++i) squares = rounded::add(squares, rounded::product(rounded::widened(x.lane[i]), rounded::widened(x.lane[i])));
    return converted<To>(x);
  }
};

// One step of a sum over a block's threads: the upper half of 2 · `half` sums is added to the lower one.
__host__ __device__ inline void halve(double* sums, std::uint32_t half, std::uint32_t thread) {
  if (thread < half) sums[thread] = rounded::add(sums[thread], sums[thread + half]);
}

// The sum of of_thread(t) over the threads of a block; `sums` is shared by them, and the result is in sums[0] for thread 0.
template <class F>
__device__ void add_up([[maybe_unused]] double* sums, [[maybe_unused]] const F& of_thread) {
#ifdef __CUDACC__
  sums[threadIdx.x] = of_thread(threadIdx.x);
  for (std::uint32_t half = threads_per_block / 2; half > 0; half /= 2) {
    __syncthreads();
    halve(sums, half, threadIdx.x);
  }
#endif
}

// Phase by phase, where threads are not at once.
template <class F>
double added_up(const F& of_thread) {
  double sums[threads_per_block];
  for (std::uint32_t thread = 0; thread < threads_per_block; ++thread) sums[thread] = of_thread(thread);
  for (std::uint32_t half = threads_per_block / 2; half > 0; half /= 2)
    for (std::uint32_t thread = 0; thread < half; ++thread) halve(sums, half, thread);
  return sums[0];
}

// A thread's part of a tile's squares, as it casts the tile.
template <class To, class From>
struct casting_thread {
  const cast_body<To, From>& body;
  const run_list& list;
  std::uint32_t block;
  __host__ __device__ double operator()(std::uint32_t thread) const {
    double squares = 0;
    map_tile<cast_body<To, From>>(measuring_cast<To, From>{body.prepared(), squares}, list, block, thread);
    return squares;
  }
};

template <class To, class From>
__global__ void
#ifdef __CUDACC__
__launch_bounds__(threads_per_block, blocks_at_once)
#endif
    measuring_kernel(const __grid_constant__ cast_body<To, From> body, const __grid_constant__ run_list list, double* scratch) {
  __shared__ double sums[threads_per_block];
  add_up(sums, casting_thread<To, From>{body, list, blockIdx.x});
  if (threadIdx.x == 0) scratch[blockIdx.x] = sums[0];
}

template <class To, class From>
struct measuring_twin {
  static void run(std::uint32_t blocks, const cast_body<To, From>& body, const run_list& list, double* scratch) {
    for (std::uint32_t block = 0; block < blocks; ++block) scratch[block] = added_up(casting_thread<To, From>{body, list, block});
  }
};

// A thread's part of the sum over blocks.
struct striding_thread {
  const double* scratch;
  std::uint32_t count;
  __host__ __device__ double operator()(std::uint32_t thread) const {
    double sum = 0;
    for (std::uint32_t i = thread; i < count; i += threads_per_block) sum = rounded::add(sum, scratch[i]);
    return sum;
  }
};

__host__ __device__ inline void conclude(const cast_measures& out, double sum) {
  *out.squared_norm = rounded::add(*out.squared_norm, sum);
  if (out.non_finite != nullptr && !(sum - sum == 0)) *out.non_finite = 1;
}

template <class Measures>
__global__ void
#ifdef __CUDACC__
__launch_bounds__(threads_per_block, blocks_at_once)
#endif
    concluding_kernel(const Measures out, std::uint32_t count) {
  __shared__ double sums[threads_per_block];
  add_up(sums, striding_thread{out.scratch, count});
  if (threadIdx.x == 0) conclude(out, sums[0]);
}

struct concluding_twin {
  static void run(std::uint32_t, const cast_measures& out, std::uint32_t count) {
    conclude(out, added_up(striding_thread{out.scratch, count}));
  }
};

/// view 0 = the tree over views 1 .., each widened to float32, divided by Σw, then rounded to `To`.
template <class To, class From, int Sources>
struct narrow_join_body {
  static constexpr int width = static_cast<int>(16 / (sizeof(To) < sizeof(From) ? sizeof(To) : sizeof(From)));
  static constexpr int batch = 1;
  static constexpr bool everywhere = false;
  static constexpr std::size_t bytes_of(int view) { return view == 0 ? sizeof(To) : sizeof(From); }
  device_number total;

  struct prepared_body {
    rounded::divisor<float> by;
    template <int W>
    __host__ __device__ pack<To, W> operator()(const site<W>& here) const {
      struct {
        const site<W>& from;
        __host__ __device__ pack<float, W> operator()(int source) const { return converted<float>(from.template load<From>(source + 1)); }
      } leaf{here};
      pack<float, W> x = tree_over<Sources>(here.list.views - 1, leaf);
      for (int i = 0; by.wide != 1 && i < W; ++i) x.lane[i] = by(x.lane[i]);
      return converted<To>(x);
    }
  };
  __host__ __device__ prepared_body prepared() const { return {rounded::divisor<float>(total.read())}; }
};

}  // namespace detail

/// Each run's view 0 = its view 1 · scale. Enqueues one launch, or two where it measures.
template <class To, class From>
void cast(cudaStream_t stream, const detail::run_list& list, const device_number& scale, const cast_measures& measures = {}) {
  using namespace detail;
  const cast_body<To, From> body{scale};
  if (measures.squared_norm == nullptr) return launch_map(stream, body, list);
  if (list.runs == 0) return;
  launch<measuring_twin<To, From>>(&measuring_kernel<To, From>, list.blocks(), stream, body, list, measures.scratch);
  launch<concluding_twin>(&concluding_kernel<cast_measures>, 1, stream, measures, list.blocks());
}

/// Each run's view 0 = the sum of its other views, at most 64, in the canonical tree, divided by Σw. Runs are pushed as
/// `detail::narrow_join_body<To, From, 0>`.
template <class To, class From>
void sum_narrow(cudaStream_t stream, const detail::run_list& list, const device_number& total) {
  using namespace detail;
  switch (list.views - 1) {
    case 2: return launch_map(stream, narrow_join_body<To, From, 2>{total}, list);
    case 4: return launch_map(stream, narrow_join_body<To, From, 4>{total}, list);
    case 8: return launch_map(stream, narrow_join_body<To, From, 8>{total}, list);
    default: return launch_map(stream, narrow_join_body<To, From, 0>{total}, list);
  }
}

}  // namespace gradsync
