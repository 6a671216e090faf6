// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// The door through which every kernel is launched, and the kernel that does a body to a list of runs.
///
/// Tests on machines without a GPU replace libcudart. There GRADSYNC_CUDA_STANDIN is defined, and each kernel registers a twin: the same
/// body, on the host, for every thread of every block.
///
///     launch_map(stream, detail::copy_body<float>{}, list);   // one launch for all runs of the list; returns at once
#pragma once

#include <cuda_runtime_api.h>
#include <device_launch_parameters.h>  // blockIdx, for compilers that do not know it

#ifdef GRADSYNC_CUDA_STANDIN
#include <tests/cuda_standin/standin.hpp>
#include <tuple>
#endif

#include <cstddef>
#include <cstdint>
#include <utility>

#include "gradsync/core/error.hpp"
#include "gradsync/cuda/check.hpp"
#include "gradsync/cuda/kernels.hpp"
#include "gradsync/cuda/pack.hpp"
#include "gradsync/cuda/runs.hpp"

namespace gradsync::detail {

template <class Body, int W, class Result>
__host__ __device__ void put(const site<W>& here, const Result& result) {
  const int outputs = Body::everywhere ? here.list.views : 1;
  for (int v = 0; v < outputs; ++v) here.store(v, result);
}

// One thread's share of `packs` packs, of which the k-th is at(k). Whole batches are computed before they are stored.
template <class Body, class Prepared, class At>
__host__ __device__ void map_packs(const Prepared& body, std::size_t packs, std::uint32_t thread, const At& at) {
  constexpr std::size_t stride = threads_per_block, whole = stride * Body::batch;
  std::size_t done = 0;
  for (; done + whole <= packs; done += whole) {
    decltype(body(at(0))) result[Body::batch];
    for (std::size_t u = 0; u < Body::batch; ++u) result[u] = body(at(done + u * stride + thread));
    for (std::size_t u = 0; u < Body::batch; ++u) put<Body>(at(done + u * stride + thread), result[u]);
  }
  for (std::size_t k = done + thread; k < packs; k += stride) put<Body>(at(k), body(at(k)));
}

// What one thread of a block does of its tile: by 16 bytes what is between borders, then both ends.
template <class Body, class Prepared>
__host__ __device__ void map_tile(const Prepared& body, const run_list& list, std::uint32_t block, std::uint32_t thread) {
  constexpr int width = Body::width;
  const run_tile t = list.tile_of(block, tile_length<Body>);
  const std::size_t packs = (t.end - t.wide) / width, tail = t.wide + packs * width, head = t.wide - t.begin;
  map_packs<Body>(body, packs, thread, [&](std::size_t k) { return site<width>{list, t.run, t.wide + k * width}; });
  map_packs<Body>(body, head + (t.end - tail), thread, [&](std::size_t k) {
    return site<1>{list, t.run, k < head ? t.begin + k : tail + (k - head)};
  });
}

#ifdef GRADSYNC_CUDA_STANDIN
// Copies of a launch's parameters, and the twin that runs on them later.
template <class Twin, class... Parameters>
class bound_twin {
 public:
  static std::function<void()> bind(dim3 grid, dim3, void** arguments) {
    return bound_twin(grid.x, arguments, std::index_sequence_for<Parameters...>{});
  }
  void operator()() const { run(std::index_sequence_for<Parameters...>{}); }

 private:
  template <std::size_t... I>
  bound_twin(std::uint32_t blocks, void** arguments, std::index_sequence<I...>)
      : blocks_(blocks), copies_(*static_cast<const Parameters*>(arguments[I])...) {}
  template <std::size_t... I>
  void run(std::index_sequence<I...>) const {
    Twin::run(blocks_, std::get<I>(copies_)...);
  }
  std::uint32_t blocks_;
  std::tuple<Parameters...> copies_;
};
#endif

// The door. `Twin::run(blocks, parameters...)` is the same kernel on the host.
template <class Twin, class... Parameters>
void launch(void (*kernel)(Parameters...), std::uint32_t blocks, cudaStream_t stream, const Parameters&... parameters) {
  static_assert((sizeof(Parameters) + ... + 0) <= 4096);  // what every CUDA version takes
#if defined(__CUDACC__) || defined(GRADSYNC_CUDA_STANDIN)
#ifdef GRADSYNC_CUDA_STANDIN
  static const bool registered = (standin::add_twin(reinterpret_cast<const void*>(kernel), &bound_twin<Twin, Parameters...>::bind), true);
  static_cast<void>(registered);
#endif
  void* arguments[] = {const_cast<Parameters*>(&parameters)...};  // which are only copied
  check(cudaLaunchKernel(reinterpret_cast<const void*>(kernel), dim3(blocks), dim3(threads_per_block), arguments, 0, stream),
        "cudaLaunchKernel");
#else
  static_cast<void>(kernel), static_cast<void>(blocks), static_cast<void>(stream), (static_cast<void>(parameters), ...);
  throw usage_error("a source file that launches gradsync's CUDA kernels must be compiled by nvcc");
#endif
}

template <class Body>
__global__ void
#ifdef __CUDACC__
__launch_bounds__(threads_per_block, blocks_at_once)
#endif
    map_kernel(const __grid_constant__ Body body, const __grid_constant__ run_list list) {
  const auto prepared = body.prepared();
  map_tile<Body>(prepared, list, blockIdx.x, threadIdx.x);
}

template <class Body>
struct map_twin {
  static void run(std::uint32_t blocks, const Body& body, const run_list& list) {
    for (std::uint32_t block = 0; block < blocks; ++block)
      for (std::uint32_t thread = 0; thread < threads_per_block; ++thread) {
        const auto prepared = body.prepared();
        map_tile<Body>(prepared, list, block, thread);
      }
  }
};

/// Does `body` to all runs of `list`, on the current device, which must be the stream's.
template <class Body>
void launch_map(cudaStream_t stream, const Body& body, const run_list& list) {
  if (list.runs > 0) launch<map_twin<Body>>(&map_kernel<Body>, list.blocks(), stream, body, list);
}

}  // namespace gradsync::detail
