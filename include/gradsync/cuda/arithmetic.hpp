// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// The rounded operations of core/arithmetic.hpp for code that runs on both sides, with the same bits: host, device, and whatever flags.
///
/// nvcc fuses products with sums, and -use_fast_math flushes subnormals and approximates quotients. These do neither: on the device each is
/// one instruction of PTX that says how it rounds.
///
///     const float x = rounded::add(rounded::product(gradient, weight), partial);
#pragma once

#include <cuda_runtime_api.h>

#include <type_traits>

#include "gradsync/core/arithmetic.hpp"

namespace gradsync::rounded {

// On one side only the parameters, on the other only the PTX would be looked at; `from` and `to` name the registers.

__host__ __device__ inline float add(float a, float b) {
#ifdef __CUDA_ARCH__
  float sum;
  asm("add.rn.f32 %0, %1, %2;" : "=f"(sum) : "f"(a), "f"(b));
  return sum;
#else
  return a + b;
#endif
}
__host__ __device__ inline double add(double a, double b) {
#ifdef __CUDA_ARCH__
  return __dadd_rn(a, b);
#else
  return a + b;
#endif
}

__host__ __device__ inline float product(float a, float b) {
#ifdef __CUDA_ARCH__
  float result;
  asm("mul.rn.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
  return result;
#else
  return detail::rounded(a * b);
#endif
}
__host__ __device__ inline double product(double a, double b) {
#ifdef __CUDA_ARCH__
  return __dmul_rn(a, b);
#else
  return detail::rounded(a * b);
#endif
}

__host__ __device__ inline float quotient(float a, float b) {
#ifdef __CUDA_ARCH__
  float result;
  asm("div.rn.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
  return result;
#else
  return a / b;
#endif
}
__host__ __device__ inline double quotient(double a, double b) {
#ifdef __CUDA_ARCH__
  return __ddiv_rn(a, b);
#else
  return a / b;
#endif
}

__host__ __device__ inline double widened(float x) {
#ifdef __CUDA_ARCH__
  double wide;
  asm("cvt.f64.f32 %0, %1;" : "=d"(wide) : "f"(x));
  return wide;
#else
  return x;
#endif
}
__host__ __device__ inline double widened(double x) { return x; }

template <class T>
__host__ __device__ inline T narrowed(double x) {
#ifdef __CUDA_ARCH__
  if constexpr (std::is_same_v<T, float>) {
    float narrow;
    asm("cvt.rn.f32.f64 %0, %1;" : "=f"(narrow) : "d"(x));
    return narrow;
  } else {
    return x;
  }
#else
  return static_cast<T>(x);
#endif
}

/// x · weight as `weighted` of core/arithmetic.hpp, for one weight and many x.
template <class T>
struct factor {
  __host__ __device__ explicit factor(double weight = 1) : wide(weight), narrow(narrowed<T>(weight)), exact(widened(narrow) == weight) {}
  __host__ __device__ T operator()(T x) const { return exact ? product(x, narrow) : narrowed<T>(product(widened(x), wide)); }

  double wide;
  T narrow;
  bool exact;
};

template <>
struct factor<double> {
  __host__ __device__ explicit factor(double weight = 1) : wide(weight) {}
  __host__ __device__ double operator()(double x) const { return product(x, wide); }

  double wide;
};

/// x / Σw as `divisor` of core/arithmetic.hpp, for one Σw and many x. 0 gives +0.
template <class T>
struct divisor {
  __host__ __device__ explicit divisor(double total) : wide(total), narrow(narrowed<T>(total)), exact(widened(narrow) == total) {}
  __host__ __device__ T operator()(T x) const {
    if (wide == 0) return T{};
    return exact ? quotient(x, narrow) : narrowed<T>(quotient(widened(x), wide));
  }

  double wide;
  T narrow;
  bool exact;
};

}  // namespace gradsync::rounded
