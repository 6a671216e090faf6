// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// Which device a thread speaks to. CUDA keeps one per host thread, and most calls mean that one; the library never leaves it changed.
///
///     const on_device here(1);   // this thread speaks to device 1 until the end of the scope
#pragma once

#include <cuda_runtime_api.h>

#include "gradsync/cuda/check.hpp"

namespace gradsync {

/// The calling thread's device.
inline int current_device() {
  int device = 0;
  check(cudaGetDevice(&device), "cudaGetDevice");
  return device;
}

/// How many devices this process sees. 0 without a driver, too.
inline int device_count() {
  int count = 0;
  if (const cudaError_t code = cudaGetDeviceCount(&count); code == cudaErrorNoDevice || code == cudaErrorInsufficientDriver) {
    cudaGetLastError();
    return 0;
  } else {
    check(code, "cudaGetDeviceCount");
  }
  return count;
}

/// Makes `device` current for a scope.
class on_device {
 public:
  explicit on_device(int device) : before_(current_device()), changed_(device != before_) {
    if (changed_) check(cudaSetDevice(device), "cudaSetDevice");
  }
  ~on_device() {
    if (changed_) static_cast<void>(cudaSetDevice(before_));
  }
  on_device(const on_device&) = delete;
  on_device& operator=(const on_device&) = delete;

 private:
  int before_;
  bool changed_;
};

}  // namespace gradsync
