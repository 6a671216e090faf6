// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

// Memory: to allocate, free, copy and set.
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "runtime.hpp"

struct CUmemPoolHandle_st {};

using namespace standin;

namespace {

enum class place { device, pinned, pageable };

struct range {
  bool valid = true;  // all of it lies in one block that is alive
  place where = place::pageable;
  int device = no_device;
};

range range_of(runtime& r, const void* p, std::size_t bytes) {
  const block* b = r.memory.block_at(p);
  if (!b) return {.valid = p != nullptr || bytes == 0};
  const auto at = reinterpret_cast<std::uintptr_t>(p);
  const bool valid = b->live && at >= b->start && at + bytes <= b->start + b->bytes;
  return {valid, b->device == no_device ? place::pinned : place::device, b->device};
}

bool fits(cudaMemcpyKind kind, bool to_device, bool from_device) {
  switch (kind) {
    case cudaMemcpyHostToHost: return !to_device && !from_device;
    case cudaMemcpyHostToDevice: return to_device && !from_device;
    case cudaMemcpyDeviceToHost: return !to_device && from_device;
    case cudaMemcpyDeviceToDevice: return to_device && from_device;
    case cudaMemcpyDefault: return true;
  }
  return false;
}

struct copying {
  void* to;
  const void* from;
  std::size_t bytes;
  range target, source;

  bool on_host() const { return target.where != place::device && source.where != place::device; }

  // The copy engine reaches both devices, with peer access or without.
  operation work() const {
    operation op{.what = "copy", .run = [to = to, from = from, n = bytes] { std::memcpy(to, from, n); }};
    for (const range& side : {target, source})
      if (side.device != no_device) op.reaches.push_back(side.device);
    return op;
  }

  // The same from a copy that was made of the source by now.
  operation staged() const {
    const auto* first = static_cast<const unsigned char*>(from);
    operation op = work();
    op.run = [to = to, staged = std::vector<unsigned char>(first, first + bytes)] { std::memcpy(to, staged.data(), staged.size()); };
    return op;
  }
};

cudaError_t make_copying(runtime& r, copying& c, cudaMemcpyKind kind) {
  c.target = range_of(r, c.to, c.bytes);
  c.source = range_of(r, c.from, c.bytes);
  if (!c.target.valid || !c.source.valid) return cudaErrorInvalidValue;
  return fits(kind, c.target.where == place::device, c.source.where == place::device) ? cudaSuccess : cudaErrorInvalidValue;
}

cudaError_t enqueue_and_wait(runtime& r, CUstream_st& stream, operation work) {
  if (const auto error = r.enqueue(stream, std::move(work)); error != cudaSuccess) return error;
  return r.wait_for(stream.device, {stream.last});
}

cudaError_t wait_then_stage(runtime& r, CUstream_st& stream, const copying& c) {
  if (const auto error = r.wait_for(stream.device, {stream.last}); error != cudaSuccess) return error;
  return r.enqueue(stream, c.staged());
}

cudaError_t copy_async(runtime& r, CUstream_st& stream, const copying& c) {
  if (c.bytes == 0) return cudaSuccess;
  if (stream.captured) return r.enqueue(stream, c.work());
  if (c.on_host() || c.target.where == place::pageable) return enqueue_and_wait(r, stream, c.work());
  if (c.source.where != place::pageable) return r.enqueue(stream, c.work());
  switch (r.random() % 3) {
    case 0: return r.enqueue(stream, c.work());  // no staging: the source is read when the stream comes to it
    case 1: return wait_then_stage(r, stream, c);
    default: return r.enqueue(stream, c.staged());
  }
}

cudaError_t copy_now(runtime& r, CUstream_st& stream, const copying& c) {
  if (c.bytes == 0) return cudaSuccess;
  if (c.target.where == place::device && c.source.where == place::device) return r.enqueue(stream, c.work());  // the host does not wait
  if (c.target.where == place::device && c.source.where == place::pageable && r.toss()) return wait_then_stage(r, stream, c);
  return enqueue_and_wait(r, stream, c.work());
}

operation setting(void* p, int value, std::size_t bytes, const range& target) {
  operation op{.what = "set", .run = [=] { std::memset(p, value, bytes); }};
  if (target.device != no_device) op.reaches = {target.device};
  return op;
}

cudaError_t allocate(runtime& r, void** p, std::size_t bytes, int device) {
  *p = nullptr;
  if (bytes == 0) return cudaSuccess;
  *p = r.memory.allocate(bytes, device);
  return *p ? cudaSuccess : cudaErrorMemoryAllocation;
}

// nullptr: p is not what an allocation returned, or was freed.
const block* owned(runtime& r, const void* p) {
  const block* b = r.memory.block_at(p);
  return b && b->live && b->start == reinterpret_cast<std::uintptr_t>(p) ? b : nullptr;
}

cudaError_t give_back(runtime& r, std::uintptr_t start, int device) {
  const std::string seen = r.memory.free(start);
  if (seen.empty()) return cudaSuccess;
  r.fail(device, cudaErrorIllegalAddress, seen);
  return cudaErrorIllegalAddress;
}

cudaError_t free_block(runtime& r, const block& b) {
  const auto start = b.start;
  const int device = b.device == no_device ? this_thread().device : b.device;
  cudaError_t failure = cudaSuccess;
  if (!b.stream_ordered && r.toss()) failure = r.wait_for(device, r.pending(device));  // the manual: it may wait for the device
  const auto error = give_back(r, start, device);
  return failure == cudaSuccess ? error : failure;
}

}  // namespace

extern "C" {

// --- to allocate and free
// -----------------------------------------------------------------------------------------------------------------

cudaError_t cudaMalloc(void** p, size_t bytes) {
  return unsafe_call([&](runtime& r) { return allocate(r, p, bytes, this_thread().device); });
}

cudaError_t cudaFree(void* p) {
  if (!p) return cudaSuccess;
  return releasing_call([&](runtime& r) {
    if (const auto error = r.unsafe_now(); error != cudaSuccess) return error;
    const block* b = owned(r, p);
    return b && b->device != no_device ? free_block(r, *b) : cudaErrorInvalidValue;
  });
}

cudaError_t cudaHostAlloc(void** p, size_t bytes, unsigned flags) {
  return unsafe_call([&](runtime& r) {
    if (flags & ~unsigned{cudaHostAllocPortable | cudaHostAllocMapped | cudaHostAllocWriteCombined}) return cudaErrorInvalidValue;
    return allocate(r, p, bytes, no_device);
  });
}

cudaError_t cudaMallocHost(void** p, size_t bytes) { return cudaHostAlloc(p, bytes, cudaHostAllocDefault); }

cudaError_t cudaFreeHost(void* p) {
  if (!p) return cudaSuccess;
  return releasing_call([&](runtime& r) {
    if (const auto error = r.unsafe_now(); error != cudaSuccess) return error;
    const block* b = owned(r, p);
    return b && b->device == no_device && !b->registered ? free_block(r, *b) : cudaErrorInvalidValue;
  });
}

cudaError_t cudaHostRegister(void* p, size_t bytes, unsigned) {
  return unsafe_call([&](runtime& r) {
    if (!p || bytes == 0) return cudaErrorInvalidValue;
    if (r.memory.block_at(p)) return cudaErrorHostMemoryAlreadyRegistered;
    r.memory.register_host(p, bytes);
    return cudaSuccess;
  });
}

cudaError_t cudaHostUnregister(void* p) {
  return unsafe_call([&](runtime& r) {
    const block* b = owned(r, p);
    if (!b || !b->registered) return cudaErrorHostMemoryNotRegistered;
    r.memory.free(b->start);
    return cudaSuccess;
  });
}

cudaError_t cudaHostGetDevicePointer(void** on_device, void* p, unsigned) {
  return call([&](runtime& r) {
    const block* b = r.memory.block_at(p);
    if (!b || !b->live || b->device != no_device) return cudaErrorInvalidValue;
    *on_device = p;
    return cudaSuccess;
  });
}

cudaError_t cudaMallocAsync(void** p, size_t bytes, cudaStream_t handle) {
  return stream_call(handle, [&](runtime& r, CUstream_st& stream) {
    if (stream.captured) return r.spoil(stream.captured, cudaErrorNotSupported);  // memory nodes are not modelled
    *p = nullptr;
    if (bytes == 0) return cudaSuccess;
    *p = r.memory.allocate(bytes, stream.device, true);
    if (!*p) return cudaErrorMemoryAllocation;
    return r.enqueue(stream, {.what = "allocate", .run = [&r, start = reinterpret_cast<std::uintptr_t>(*p)] { r.memory.arrive(start); }});
  });
}

cudaError_t cudaMallocFromPoolAsync(void** p, size_t bytes, cudaMemPool_t, cudaStream_t stream) {
  return cudaMallocAsync(p, bytes, stream);
}

cudaError_t cudaFreeAsync(void* p, cudaStream_t handle) {
  if (!p) return cudaSuccess;
  return stream_call(handle, [&](runtime& r, CUstream_st& stream) {
    if (stream.captured) return r.spoil(stream.captured, cudaErrorNotSupported);
    const block* b = owned(r, p);
    if (!b || b->device == no_device) return cudaErrorInvalidValue;
    return r.enqueue(stream, {.what = "free", .run = [&r, start = b->start, device = b->device] {
                                if (owned(r, reinterpret_cast<void*>(start))) give_back(r, start, device);
                              }});
  });
}

cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int device) {
  return call([&](runtime& r) {
    static CUmemPoolHandle_st one;
    if (device < 0 || static_cast<std::size_t>(device) >= r.devices.size()) return cudaErrorInvalidDevice;
    *pool = &one;
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetMemPool(cudaMemPool_t* pool, int device) { return cudaDeviceGetDefaultMemPool(pool, device); }

// How much a pool keeps changes nothing here: no address is used twice.
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t, cudaMemPoolAttr, void*) { return cudaSuccess; }
cudaError_t cudaMemPoolTrimTo(cudaMemPool_t, size_t) { return cudaSuccess; }

cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  return call([&](runtime& r) {
    *total = r.memory.device_bytes;
    *free = *total - r.memory.used_of(this_thread().device);
    return cudaSuccess;
  });
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* p) {
  return call([&](runtime& r) {
    *attributes = {};
    attributes->device = -1;
    const range at = range_of(r, p, 0);
    if (at.where == place::pageable || !at.valid) {
      attributes->type = cudaMemoryTypeUnregistered;
      return cudaSuccess;
    }
    const bool device = at.where == place::device;
    attributes->type = device ? cudaMemoryTypeDevice : cudaMemoryTypeHost;
    attributes->device = device ? at.device : 0;
    attributes->devicePointer = const_cast<void*>(p);
    attributes->hostPointer = device ? nullptr : const_cast<void*>(p);
    return cudaSuccess;
  });
}

// --- to copy and set
// ----------------------------------------------------------------------------------------------------------------------

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t handle) {
  return stream_call(handle, [&](runtime& r, CUstream_st& stream) {
    copying c{to, from, bytes, {}, {}};
    const auto error = make_copying(r, c, kind);
    return error == cudaSuccess ? copy_async(r, stream, c) : error;
  });
}

cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  return unsafe_call([&](runtime& r) {
    copying c{to, from, bytes, {}, {}};
    const auto error = make_copying(r, c, kind);
    return error == cudaSuccess ? copy_now(r, *r.stream_of(cudaStreamLegacy), c) : error;
  });
}

cudaError_t cudaMemcpyPeerAsync(void* to, int to_device, const void* from, int from_device, size_t bytes, cudaStream_t handle) {
  return stream_call(handle, [&](runtime& r, CUstream_st& stream) {
    copying c{to, from, bytes, {}, {}};
    const auto error = make_copying(r, c, cudaMemcpyDefault);
    if (error != cudaSuccess) return error;
    if (c.target.device != to_device || c.source.device != from_device) return cudaErrorInvalidValue;
    return copy_async(r, stream, c);
  });
}

cudaError_t cudaMemsetAsync(void* p, int value, size_t bytes, cudaStream_t handle) {
  return stream_call(handle, [&](runtime& r, CUstream_st& stream) {
    const range target = range_of(r, p, bytes);
    if (!target.valid || target.where == place::pageable) return cudaErrorInvalidValue;
    return bytes == 0 ? cudaSuccess : r.enqueue(stream, setting(p, value, bytes, target));
  });
}

cudaError_t cudaMemset(void* p, int value, size_t bytes) {
  return unsafe_call([&](runtime& r) {
    const range target = range_of(r, p, bytes);
    if (!target.valid || target.where == place::pageable) return cudaErrorInvalidValue;
    if (bytes == 0) return cudaSuccess;
    CUstream_st& stream = *r.stream_of(cudaStreamLegacy);
    operation work = setting(p, value, bytes, target);
    return target.where == place::pinned ? enqueue_and_wait(r, stream, std::move(work)) : r.enqueue(stream, std::move(work));
  });
}

}  // extern "C"
