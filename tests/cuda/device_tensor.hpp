// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// Somebody's tensor: floats in the memory of the device that is current when it is made.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "gradsync/cuda/device.hpp"
#include "gradsync/cuda/memory.hpp"
#include "gradsync/model/parameter_access.hpp"

namespace gradsync::tests {

struct device_tensor {
  explicit device_tensor(std::size_t n = 0) : memory(device_memory(n * sizeof(float), current_device())), count(n) {}
  float* data() const { return reinterpret_cast<float*>(memory.get()); }

  std::shared_ptr<std::byte> memory;
  std::size_t count;
};

}  // namespace gradsync::tests

template <>
struct gradsync::parameter_access<gradsync::tests::device_tensor> {
  static constexpr auto space = gradsync::memory_space::cuda;
  static std::span<float> value(gradsync::tests::device_tensor& t) { return {t.data(), t.count}; }
};
