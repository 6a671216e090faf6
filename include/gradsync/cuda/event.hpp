// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// A point in a stream's work that other streams can wait for, and the host can ask about.
///
/// A wait means the last record before it, so an event may be recorded again while streams still wait for an earlier record of it. One that
/// was never recorded delays nobody. It keeps no time, which makes it cheaper.
///
///     cuda_event arrived(device);
///     arrived.record(compute);      // after all that `compute` has been given so far
///     arrived.delay(communication); // later work of `communication` comes after that point
#pragma once

#include <cuda_runtime_api.h>

#include <utility>

#include "gradsync/cuda/check.hpp"
#include "gradsync/cuda/device.hpp"

namespace gradsync {

/// Recorded in streams of its own device; any stream may wait for it.
class cuda_event {
 public:
  explicit cuda_event(int device) : device_(device) {
    const on_device here(device);
    check(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), "cudaEventCreateWithFlags");
  }
  ~cuda_event() {
    if (event_ != nullptr) static_cast<void>(cudaEventDestroy(event_));
  }
  cuda_event(cuda_event&& other) noexcept : event_(std::exchange(other.event_, nullptr)), device_(other.device_) {}
  cuda_event& operator=(cuda_event&& other) noexcept {
    std::swap(event_, other.event_);
    std::swap(device_, other.device_);
    return *this;
  }

  int device() const { return device_; }
  cudaEvent_t native() const { return event_; }

  void record(cudaStream_t stream) {
    const on_device here(device_);  // the null stream is the current device's
    check(cudaEventRecord(event_, stream), "cudaEventRecord");
  }

  /// Work that `stream` is given from now on comes after the last record.
  void delay(cudaStream_t stream) const { check(cudaStreamWaitEvent(stream, event_, 0), "cudaStreamWaitEvent"); }

  /// Whether the work before the last record is done. May not be asked of an event recorded during capture.
  bool done() const {
    const cudaError_t code = cudaEventQuery(event_);
    if (code == cudaErrorNotReady) return false;
    check(code, "cudaEventQuery");
    return true;
  }

 private:
  cudaEvent_t event_ = nullptr;
  int device_;
};

}  // namespace gradsync
