// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// Elements by the 16 bytes: what a thread loads from and stores to a run at once.
///
///     const pack<float, 4> x = here.load<float>(1);   // view 1, one LDG.E.128
#pragma once

#include <cuda_runtime_api.h>
#include <vector_types.h>

#include <cstddef>
#include <cstring>
#include <type_traits>

#include "gradsync/cuda/runs.hpp"

namespace gradsync::detail {

template <class T, int Width>
struct pack {
  T lane[Width];
};

// The same for elements that nobody looks at: they stay the 16 bytes that they came as.
template <class T, int Width>
struct sealed_pack {
  std::conditional_t<Width == 1, T, uint4> bits;
};

// Stores 16 bytes at once. nvcc would make four stores out of an assignment.
__host__ __device__ inline void store_vector(uint4* to, const uint4& vector) {
#ifdef __CUDA_ARCH__
  asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(vector.x), "r"(vector.y), "r"(vector.z), "r"(vector.w) : "memory");
#else
  *to = vector;
#endif
}

// `Width` elements of each view, from one element of a run on; for Width > 1 at a border of 16 bytes.
template <int Width>
struct site {
  const run_list& list;
  int run;
  std::size_t first;

  template <class T>
  __host__ __device__ pack<T, Width> load(int view) const {
    const T* from = reinterpret_cast<const T*>(list.pointer(run, view)) + first;
    pack<T, Width> p;
    if constexpr (Width == 1) {
      p.lane[0] = *from;
    } else {
      static_assert(sizeof p % 16 == 0);
      for (std::size_t k = 0; k < sizeof p / 16; ++k) {
        const uint4 vector = reinterpret_cast<const uint4*>(from)[k];
        std::memcpy(reinterpret_cast<std::byte*>(&p) + 16 * k, &vector, 16);
      }
    }
    return p;
  }

  template <class T>
  __host__ __device__ void store(int view, const pack<T, Width>& p) const {
    T* to = reinterpret_cast<T*>(list.pointer(run, view)) + first;
    if constexpr (Width == 1) {
      *to = p.lane[0];
    } else {
      for (std::size_t k = 0; k < sizeof p / 16; ++k) {
        uint4 vector;
        std::memcpy(&vector, reinterpret_cast<const std::byte*>(&p) + 16 * k, 16);
        store_vector(reinterpret_cast<uint4*>(to) + k, vector);
      }
    }
  }

  template <class T>
  __host__ __device__ sealed_pack<T, Width> load_sealed(int view) const {
    const T* from = reinterpret_cast<const T*>(list.pointer(run, view)) + first;
    return {*reinterpret_cast<const decltype(sealed_pack<T, Width>::bits)*>(from)};
  }

  template <class T>
  __host__ __device__ void store(int view, const sealed_pack<T, Width>& p) const {
    T* to = reinterpret_cast<T*>(list.pointer(run, view)) + first;
    if constexpr (Width == 1) *to = p.bits;
    else store_vector(reinterpret_cast<uint4*>(to), p.bits);
  }
};

}  // namespace gradsync::detail
