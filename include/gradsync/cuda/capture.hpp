// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// Work that is captured into a CUDA graph instead of being done, and what may not be asked for meanwhile.
///
///     if (is_capturing(stream)) throw usage_error("total_weight() waits for the device ...");
///     const uncaptured meanwhile;        // allocations and questions in this scope have nothing to do with the capture
#pragma once

#include <cuda_runtime_api.h>

#include "gradsync/cuda/check.hpp"

namespace gradsync {

/// Whether the stream is being captured; of the legacy default stream, whether it can't be used since another one is.
inline bool is_capturing(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  const cudaError_t code = cudaStreamIsCapturing(stream, &status);
  if (code == cudaErrorStreamCaptureImplicit) {
    cudaGetLastError();
    return true;
  }
  check(code, "cudaStreamIsCapturing");
  return status != cudaStreamCaptureStatusNone;
}

/// Whether that is CUDA's error for a call which a capture does not allow.
constexpr bool blames_capture(cudaError_t code) {
  return code == cudaErrorStreamCaptureUnsupported || code == cudaErrorStreamCaptureImplicit || code == cudaErrorStreamCaptureInvalidated;
}

/// For a scope in which this thread allocates, or asks how far a stream is that no capture has taken hold of: CUDA would take each such
/// call for a mistake, and spoil whatever this thread, or any, is capturing.
class uncaptured {
 public:
  uncaptured() { check(cudaThreadExchangeStreamCaptureMode(&mode_), "cudaThreadExchangeStreamCaptureMode"); }
  ~uncaptured() { static_cast<void>(cudaThreadExchangeStreamCaptureMode(&mode_)); }
  uncaptured(const uncaptured&) = delete;
  uncaptured& operator=(const uncaptured&) = delete;

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

}  // namespace gradsync
