// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// Checked calls of the CUDA runtime: what fails throws, with the call, its place, and CUDA's own name and sentence for the error.
///
/// A wrong argument, or a call that may not be captured, is a `cuda_usage_error`: the device is as it was. Anything else is a `cuda_error`,
/// a `transport_error`: this rank is lost to its peers, and where the error is sticky (an illegal address, say) the process can use the
/// device no more. CUDA reports asynchronous errors at some later call, so the place is where it was noticed.
///
///     check(cudaEventRecord(event, stream), "cudaEventRecord(event, stream)");
///     // gradsync: cudaEventRecord(event, stream) at stream.hpp:81: cudaErrorInvalidResourceHandle: invalid resource handle
#pragma once

#include <cuda_runtime_api.h>

#include <string>

#include "gradsync/core/error.hpp"

namespace gradsync {

/// The device failed, or has no more memory.
struct cuda_error : transport_error {
  cuda_error(const std::string& message, cudaError_t reason) : transport_error(message), code(reason) {}
  cudaError_t code;
};

/// The call was wrong; nothing was changed by it.
struct cuda_usage_error : usage_error {
  cuda_usage_error(const std::string& message, cudaError_t reason) : usage_error(message), code(reason) {}
  cudaError_t code;
};

namespace detail {

// Errors that say nothing about the device's health: the caller asked for what there is not, or at a time when it may not.
constexpr bool blames_the_caller(cudaError_t code) {
  switch (code) {
    case cudaErrorInvalidValue:
    case cudaErrorInvalidDevice:
    case cudaErrorNoDevice:
    case cudaErrorInvalidDevicePointer:
    case cudaErrorInvalidMemcpyDirection:
    case cudaErrorInvalidResourceHandle:
    case cudaErrorInvalidConfiguration:
    case cudaErrorInvalidDeviceFunction:
    case cudaErrorNoKernelImageForDevice:
    case cudaErrorPeerAccessUnsupported:
    case cudaErrorPeerAccessAlreadyEnabled:
    case cudaErrorPeerAccessNotEnabled:
    case cudaErrorStreamCaptureUnsupported:
    case cudaErrorStreamCaptureInvalidated:
    case cudaErrorStreamCaptureMerge:
    case cudaErrorStreamCaptureUnmatched:
    case cudaErrorStreamCaptureUnjoined:
    case cudaErrorStreamCaptureIsolation:
    case cudaErrorStreamCaptureImplicit:
    case cudaErrorStreamCaptureWrongThread:
    case cudaErrorCapturedEvent: return true;
    default: return false;
  }
}

[[noreturn]] inline void throw_cuda(cudaError_t code, const char* call, const char* file, int line) {
  cudaGetLastError();  // else the next launch would be blamed for it
  std::string place = file;
  place.erase(0, place.rfind('/') + 1);
  const std::string message =
      std::string(call) + " at " + place + ":" + std::to_string(line) + ": " + cudaGetErrorName(code) + ": " + cudaGetErrorString(code);
  if (blames_the_caller(code)) throw cuda_usage_error(message, code);
  throw cuda_error(message, code);
}

}  // namespace detail

/// Throws unless `code` is cudaSuccess. `call` is what was called, in words. Leave out file and line: they are the caller's.
inline void check(cudaError_t code, const char* call, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  if (code != cudaSuccess) detail::throw_cuda(code, call, file, line);
}

}  // namespace gradsync
