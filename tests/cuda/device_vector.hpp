// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// Elements in the memory of the device that is current when they are made.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "gradsync/core/buffer_view.hpp"
#include "gradsync/cuda/device.hpp"
#include "gradsync/cuda/memory.hpp"
#include "gradsync/cuda/stream.hpp"

namespace gradsync::tests {

template <class T>
class device_vector {
 public:
  explicit device_vector(const std::vector<T>& values)
      : data_(device_memory(values.size() * sizeof(T), current_device())), found_(pinned_memory(values.size() * sizeof(T))),
        looks_(current_device()), all_{data_.get(), 0, values.size()} {
    set(values);
  }
  void set(const std::vector<T>& values) {
    if (!values.empty()) check(cudaMemcpy(data_.get(), values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice), "cudaMemcpy");
    check(cudaStreamSynchronize(nullptr), "cudaStreamSynchronize");  // a copy from pageable memory may return before it is done
  }
  buffer_view view() const { return {dtype_of<T>(), std::span(&all_, all_.count > 0 ? 1 : 0)}; }
  T* data() const { return reinterpret_cast<T*>(data_.get()); }

  /// Waits for the device.
  std::vector<T> values() const {
    check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    return seen();
  }

  /// As they are now: found on a stream that waits for no other.
  std::vector<T> seen() const {
    std::vector<T> on_host(all_.count);
    if (all_.count == 0) return on_host;
    const std::size_t bytes = all_.count * sizeof(T);
    check(cudaMemcpyAsync(found_.get(), data_.get(), bytes, cudaMemcpyDeviceToHost, looks_.native()), "cudaMemcpyAsync");
    check(cudaStreamSynchronize(looks_.native()), "cudaStreamSynchronize");
    std::memcpy(on_host.data(), found_.get(), bytes);
    return on_host;
  }

 private:
  std::shared_ptr<std::byte> data_, found_;
  mutable cuda_stream looks_;
  extent all_;
};

}  // namespace gradsync::tests
