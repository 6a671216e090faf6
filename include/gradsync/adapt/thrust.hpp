// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// Models of thrust vectors.
///
/// A thrust::host_vector is a container like std::vector and needs nothing of this header. A thrust::device_vector becomes a parameter
/// whose elements lie in the memory of a CUDA device: it is listed, described and compared at the start like any other, and what would
/// follow its addresses on the host throws a `usage_error` instead.
///
///     struct param { thrust::device_vector<float> value, grad; };
///     struct net { param weight, bias; };
///     std::cout << gradsync::describe(net{});
#pragma once

#include <thrust/device_vector.h>

#include <span>

#include "gradsync/core/dtype.hpp"
#include "gradsync/model/parameter.hpp"
#include "gradsync/model/parameter_access.hpp"

namespace gradsync {

template <gradient_element T, class Allocator>
struct parameter_access<thrust::device_vector<T, Allocator>> {
  static constexpr auto space = memory_space::cuda;
  static std::span<T> value(thrust::device_vector<T, Allocator>& v) { return {thrust::raw_pointer_cast(v.data()), v.size()}; }
};

}  // namespace gradsync
