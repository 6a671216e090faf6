// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

// Launches of kernels, and what the host code calls that nvcc generates.
#include <cstdio>

#include "runtime.hpp"

using namespace standin;

namespace {

bool fits(dim3 grid, dim3 block, std::size_t shared_bytes) {
  const auto threads = std::size_t{block.x} * block.y * block.z;
  return grid.x > 0 && grid.y > 0 && grid.z > 0 && grid.x <= 2147483647u && grid.y <= 65535 && grid.z <= 65535 && threads > 0 &&
         threads <= 1024 && block.z <= 64 && shared_bytes <= (48u << 10);
}

struct configuration {
  dim3 grid, block;
  std::size_t shared_bytes;
  cudaStream_t stream;
};
thread_local std::vector<configuration> pushed;

}  // namespace

extern "C" {

cudaError_t cudaLaunchKernel(const void* kernel, dim3 grid, dim3 block, void** arguments, size_t shared_bytes, cudaStream_t handle) {
  return stream_call(handle, [&](runtime& r, CUstream_st& stream) {
    if (stream.device != this_thread().device) return cudaErrorInvalidResourceHandle;
    if (!fits(grid, block, shared_bytes)) return cudaErrorInvalidConfiguration;
    const auto twin = r.twins.find(kernel);
    if (twin == r.twins.end()) {
      std::fprintf(stderr, "cuda stand-in: no twin was added for the kernel %s\n", r.kernel_names[kernel].c_str());
      return cudaErrorInvalidDeviceFunction;
    }
    return r.enqueue(stream, {.what = "kernel", .run = twin->second(grid, block, arguments), .reaches = r.reach_of(stream.device)});
  });
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* kernel, void** arguments) {
  return cudaLaunchKernel(kernel, config->gridDim, config->blockDim, arguments, config->dynamicSmemBytes, config->stream);
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* kernel) {
  return call([&](runtime& r) {
    if (!r.twins.count(kernel)) return cudaErrorInvalidDeviceFunction;
    *attributes = {};
    attributes->maxThreadsPerBlock = 1024;
    attributes->numRegs = 32;
    return cudaSuccess;
  });
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* kernel, int block_size, size_t) {
  return call([&](runtime& r) {
    if (!r.twins.count(kernel)) return cudaErrorInvalidDeviceFunction;
    if (block_size < 1 || block_size > 1024) return cudaErrorInvalidValue;
    *blocks = 2048 / block_size;
    return cudaSuccess;
  });
}

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared_bytes, struct CUstream_st* stream) {
  pushed.push_back({grid, block, shared_bytes, stream});
  return 0;
}

cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared_bytes, void* stream) {
  *grid = pushed.back().grid;
  *block = pushed.back().block;
  *shared_bytes = pushed.back().shared_bytes;
  *static_cast<cudaStream_t*>(stream) = pushed.back().stream;
  pushed.pop_back();
  return cudaSuccess;
}

void** __cudaRegisterFatBinary(void*) {
  static void* handle;
  return &handle;
}
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}
char __cudaInitModule(void**) { return 1; }

void __cudaRegisterFunction(void**, const char* kernel, char*, const char* name, int, uint3*, uint3*, dim3*, dim3*, int*) {
  runtime& r = runtime::get();
  const std::unique_lock guard(r.lock);
  r.kernel_names[kernel] = name;
}

// Variables of a device, which thrust's headers have and no kernel of ours.
void __cudaRegisterVar(void**, char*, char*, const char*, int, size_t, int, int) {}

cudaError_t __cudaLaunchKernel(const void* kernel, dim3 grid, dim3 block, void** arguments, size_t shared_bytes, cudaStream_t stream) {
  return cudaLaunchKernel(kernel, grid, block, arguments, shared_bytes, stream);
}

#if CUDART_VERSION >= 12010
// A newer nvcc keeps a handle for each kernel; here it is the address itself.
cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* address) {
  *kernel = reinterpret_cast<cudaKernel_t>(const_cast<void*>(address));
  return cudaSuccess;
}
#endif

}  // extern "C"
