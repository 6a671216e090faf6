// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

// Linked to the real CUDA runtime, a test passes where there is no device, and says so.
#include <cuda_runtime_api.h>

#include <string>

#include "tests/cuda_standin/standin.hpp"

const char* reason_to_skip();

const char* reason_to_skip() {
  static std::string reason;
  int devices = 0;
  if (const cudaError_t error = cudaGetDeviceCount(&devices); error != cudaSuccess)
    reason = "no CUDA device (" + std::string(cudaGetErrorString(error)) + ')';
  else if (devices == 0) reason = "no CUDA device";
  return reason.empty() ? nullptr : reason.c_str();
}

// A device follows no seed.
void standin::seed(unsigned) {}
