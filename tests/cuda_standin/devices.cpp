// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

// Devices, and errors.
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "runtime.hpp"

using namespace standin;

namespace {

bool exists(runtime& r, int device) { return device >= 0 && static_cast<std::size_t>(device) < r.devices.size(); }
device_state& state_of(runtime& r, int device) { return r.devices[static_cast<std::size_t>(device)]; }

// What a call answers that no failure of a device keeps from it.
cudaError_t always(const std::function<cudaError_t(runtime&)>& body) {
  runtime& r = runtime::get();
  const std::unique_lock guard(r.lock);
  const cudaError_t error = body(r);
  if (error != cudaSuccess) this_thread().last_error = error;
  return error;
}

constexpr std::pair<cudaError_t, std::pair<const char*, const char*>> known_errors[] = {
    {cudaSuccess, {"cudaSuccess", "no error"}},
    {cudaErrorInvalidValue, {"cudaErrorInvalidValue", "invalid argument"}},
    {cudaErrorMemoryAllocation, {"cudaErrorMemoryAllocation", "out of memory"}},
    {cudaErrorInvalidConfiguration, {"cudaErrorInvalidConfiguration", "invalid configuration argument"}},
    {cudaErrorInvalidDevice, {"cudaErrorInvalidDevice", "invalid device ordinal"}},
    {cudaErrorNoDevice, {"cudaErrorNoDevice", "no CUDA-capable device is detected"}},
    {cudaErrorInvalidDeviceFunction, {"cudaErrorInvalidDeviceFunction", "invalid device function"}},
    {cudaErrorInvalidMemcpyDirection, {"cudaErrorInvalidMemcpyDirection", "invalid copy direction for memcpy"}},
    {cudaErrorIllegalState, {"cudaErrorIllegalState", "the operation cannot be performed in the present state"}},
    {cudaErrorInvalidResourceHandle, {"cudaErrorInvalidResourceHandle", "invalid resource handle"}},
    {cudaErrorNotReady, {"cudaErrorNotReady", "device not ready"}},
    {cudaErrorIllegalAddress, {"cudaErrorIllegalAddress", "an illegal memory access was encountered"}},
    {cudaErrorLaunchTimeout, {"cudaErrorLaunchTimeout", "the launch timed out and was terminated"}},
    {cudaErrorLaunchFailure, {"cudaErrorLaunchFailure", "unspecified launch failure"}},
    {cudaErrorPeerAccessAlreadyEnabled, {"cudaErrorPeerAccessAlreadyEnabled", "peer access is already enabled"}},
    {cudaErrorPeerAccessNotEnabled, {"cudaErrorPeerAccessNotEnabled", "peer access has not been enabled"}},
    {cudaErrorPeerAccessUnsupported, {"cudaErrorPeerAccessUnsupported", "peer access is not supported between these two devices"}},
    {cudaErrorHostMemoryAlreadyRegistered,
     {"cudaErrorHostMemoryAlreadyRegistered", "part or all of the requested memory range is already mapped"}},
    {cudaErrorHostMemoryNotRegistered, {"cudaErrorHostMemoryNotRegistered", "pointer does not correspond to a registered memory region"}},
    {cudaErrorNotPermitted, {"cudaErrorNotPermitted", "operation not permitted"}},
    {cudaErrorNotSupported, {"cudaErrorNotSupported", "operation not supported"}},
    {cudaErrorStreamCaptureUnsupported, {"cudaErrorStreamCaptureUnsupported", "operation not permitted when stream is capturing"}},
    {cudaErrorStreamCaptureInvalidated, {"cudaErrorStreamCaptureInvalidated", "operation failed due to a previous error during capture"}},
    {cudaErrorStreamCaptureMerge, {"cudaErrorStreamCaptureMerge", "operation would result in a merge of separate capture sequences"}},
    {cudaErrorStreamCaptureUnmatched, {"cudaErrorStreamCaptureUnmatched", "capture was not ended in the same stream as it began"}},
    {cudaErrorStreamCaptureUnjoined, {"cudaErrorStreamCaptureUnjoined", "capturing stream has unjoined work"}},
    {cudaErrorStreamCaptureIsolation, {"cudaErrorStreamCaptureIsolation", "dependency created on uncaptured work in another stream"}},
    {cudaErrorStreamCaptureImplicit,
     {"cudaErrorStreamCaptureImplicit", "operation would make the legacy stream depend on a capturing blocking stream"}},
    {cudaErrorCapturedEvent, {"cudaErrorCapturedEvent", "operation not permitted on an event last recorded in a capturing stream"}},
    {cudaErrorStreamCaptureWrongThread,
     {"cudaErrorStreamCaptureWrongThread", "attempt to terminate a thread-local capture sequence from another thread"}},
};

std::pair<const char*, const char*> words_for(cudaError_t error) {
  for (const auto& [known, words] : known_errors)
    if (known == error) return words;
  return {"unrecognized error code", "unrecognized error code"};
}

int attribute_of(int device, cudaDeviceAttr attribute) {
  switch (attribute) {
    case cudaDevAttrComputeCapabilityMajor: return 9;
    case cudaDevAttrComputeCapabilityMinor: return 0;
    case cudaDevAttrMultiProcessorCount: return 8;
    case cudaDevAttrMaxThreadsPerBlock: return 1024;
    case cudaDevAttrMaxThreadsPerMultiProcessor: return 2048;
    case cudaDevAttrMaxGridDimX: return 2147483647;
    case cudaDevAttrMaxGridDimY:
    case cudaDevAttrMaxGridDimZ: return 65535;
    case cudaDevAttrWarpSize: return 32;
    case cudaDevAttrMaxSharedMemoryPerBlock: return 48 << 10;
    case cudaDevAttrUnifiedAddressing:
    case cudaDevAttrMemoryPoolsSupported:
    case cudaDevAttrCanMapHostMemory:
    case cudaDevAttrAsyncEngineCount:
    case cudaDevAttrConcurrentKernels:
    case cudaDevAttrStreamPrioritiesSupported: return 1;
    case cudaDevAttrPciBusId: return device + 1;
    default: return 0;
  }
}

}  // namespace

extern "C" {

cudaError_t cudaGetLastError() { return std::exchange(this_thread().last_error, cudaSuccess); }
cudaError_t cudaPeekAtLastError() { return this_thread().last_error; }
const char* cudaGetErrorName(cudaError_t error) { return words_for(error).first; }
const char* cudaGetErrorString(cudaError_t error) { return words_for(error).second; }

cudaError_t cudaGetDeviceCount(int* count) {
  return always([&](runtime& r) {
    *count = static_cast<int>(r.devices.size());
    return cudaSuccess;
  });
}

cudaError_t cudaGetDevice(int* device) {
  *device = this_thread().device;
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
  return always([&](runtime& r) {
    if (!exists(r, device)) return cudaErrorInvalidDevice;
    this_thread().device = device;
    return cudaSuccess;
  });
}

cudaError_t cudaInitDevice(int device, unsigned, unsigned) {
  return always([&](runtime& r) { return exists(r, device) ? cudaSuccess : cudaErrorInvalidDevice; });
}

cudaError_t cudaDriverGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  return always([&](runtime& r) {
    if (!exists(r, device)) return cudaErrorInvalidDevice;
    *value = attribute_of(device, attribute);
    return cudaSuccess;
  });
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  return always([&](runtime& r) {
    if (!exists(r, device)) return cudaErrorInvalidDevice;
    *properties = {};
    std::snprintf(properties->name, sizeof properties->name, "stand-in %d", device);
    properties->uuid.bytes[0] = static_cast<char>(device + 1);
    properties->major = 9;
    properties->multiProcessorCount = 8;
    properties->totalGlobalMem = r.memory.device_bytes;
    properties->maxThreadsPerBlock = 1024;
    properties->maxThreadsPerMultiProcessor = 2048;
    properties->warpSize = 32;
    properties->unifiedAddressing = 1;
    properties->pciBusID = device + 1;
    properties->sharedMemPerBlock = 48 << 10;
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetPCIBusId(char* text, int length, int device) {
  return always([&](runtime& r) {
    if (!exists(r, device)) return cudaErrorInvalidDevice;
    std::snprintf(text, static_cast<std::size_t>(length), "0000:%02X:00.0", device + 1);
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetByPCIBusId(int* device, const char* text) {
  return always([&](runtime& r) {
    unsigned bus = 0;
    if (std::sscanf(text, "0000:%X:00.0", &bus) != 1 || !exists(r, static_cast<int>(bus) - 1)) return cudaErrorInvalidDevice;
    *device = static_cast<int>(bus) - 1;
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  if (least) *least = 0;
  if (greatest) *greatest = -5;
  return cudaSuccess;
}

cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  return always([&](runtime& r) {
    if (!exists(r, device) || !exists(r, peer)) return cudaErrorInvalidDevice;
    *can = device != peer;
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags) {
  return unsafe_call([&](runtime& r) {
    if (flags != 0) return cudaErrorInvalidValue;
    if (!exists(r, peer) || peer == this_thread().device) return cudaErrorInvalidDevice;
    return state_of(r, this_thread().device).peers.insert(peer).second ? cudaSuccess : cudaErrorPeerAccessAlreadyEnabled;
  });
}

cudaError_t cudaDeviceDisablePeerAccess(int peer) {
  return unsafe_call([&](runtime& r) {
    if (!exists(r, peer)) return cudaErrorInvalidDevice;
    return state_of(r, this_thread().device).peers.erase(peer) == 1 ? cudaSuccess : cudaErrorPeerAccessNotEnabled;
  });
}

cudaError_t cudaDeviceSynchronize() {
  return unsafe_call([](runtime& r) { return r.wait_for(this_thread().device, r.pending(this_thread().device)); });
}

}  // extern "C"
