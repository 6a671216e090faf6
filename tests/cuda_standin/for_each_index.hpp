// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// For the tests of the stand-in itself, .cu files: a kernel that calls body(i) for each i below count, and its twin.
#pragma once

#include <cuda_runtime.h>

#include "tests/cuda_standin/standin.hpp"

namespace standin {

template <class Body>
__global__ void for_each_index_kernel(Body body, std::size_t count) {
  for (std::size_t i = blockIdx.x * std::size_t{blockDim.x} + threadIdx.x; i < count; i += std::size_t{gridDim.x} * blockDim.x) body(i);
}

template <class Body>
std::function<void()> for_each_index_twin(dim3, dim3, void** arguments) {
  return [body = *static_cast<Body*>(arguments[0]), count = *static_cast<std::size_t*>(arguments[1])] {
    for (std::size_t i = 0; i < count; ++i) body(i);
  };
}

template <class Body>
void for_each_index(cudaStream_t stream, std::size_t count, Body body) {
  static const bool added = [] {
    add_twin(reinterpret_cast<const void*>(&for_each_index_kernel<Body>), &for_each_index_twin<Body>);
    return true;
  }();
  static_cast<void>(added);
  for_each_index_kernel<<<dim3(static_cast<unsigned>((count + 255) / 256)), dim3(256), 0, stream>>>(body, count);
}

// The bodies that the tests use.
struct fill {
  float* to;
  float value;
  __host__ __device__ void operator()(std::size_t i) const { to[i] = value; }
};

struct scale {
  float* to;
  float factor;
  __host__ __device__ void operator()(std::size_t i) const { to[i] *= factor; }
};

struct add {
  float* to;
  const float* from;
  __host__ __device__ void operator()(std::size_t i) const { to[i] += from[i]; }
};

}  // namespace standin
