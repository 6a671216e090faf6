// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// Owned memory: of a device, or of the host and pinned, so that devices can copy to and from it while the host goes on.
///
/// Both come zeroed, as shared pointers that give the memory back to the device it is from, whichever is current by then. Allocating and
/// freeing wait for the device: take what a step needs before the first one. What a stream still reads may be let go of.
///
///     const std::shared_ptr<std::byte> bucket = device_memory(25 << 20, 0);   // aligned to 256 bytes
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstring>
#include <memory>

#include "gradsync/cuda/check.hpp"
#include "gradsync/cuda/device.hpp"

namespace gradsync {

namespace detail {

struct free_on_device {
  int device;
  void operator()(std::byte* data) const {
    try {
      const on_device here(device);
      check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");  // some stream may still read or write it
      check(cudaFree(data), "cudaFree");
    } catch (const error&) {  // of work that failed before, and whoever waits for it is told
    }
  }
};

struct free_pinned {
  void operator()(std::byte* data) const { static_cast<void>(cudaFreeHost(data)); }
};

}  // namespace detail

/// `bytes` zeros in the memory of `device`; null for none. Blocks.
inline std::shared_ptr<std::byte> device_memory(std::size_t bytes, int device) {
  if (bytes == 0) return nullptr;
  const on_device here(device);
  void* data = nullptr;
  check(cudaMalloc(&data, bytes), "cudaMalloc");
  std::shared_ptr<std::byte> owned(static_cast<std::byte*>(data), detail::free_on_device{device});
  check(cudaMemset(data, 0, bytes), "cudaMemset");
  check(cudaStreamSynchronize(nullptr), "cudaStreamSynchronize");  // else other streams could come before the zeros
  return owned;
}

/// `bytes` zeros in host memory that every device can reach at the same address; null for none. Blocks.
inline std::shared_ptr<std::byte> pinned_memory(std::size_t bytes) {
  if (bytes == 0) return nullptr;
  void* data = nullptr;
  check(cudaHostAlloc(&data, bytes, cudaHostAllocPortable), "cudaHostAlloc");
  std::memset(data, 0, bytes);
  return {static_cast<std::byte*>(data), detail::free_pinned{}};
}

}  // namespace gradsync
