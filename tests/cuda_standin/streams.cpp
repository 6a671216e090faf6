// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

// Streams and events.
#include <algorithm>

#include "runtime.hpp"

using namespace standin;

namespace {

// Waits for a stream, or asks about it, and so can't be part of a graph.
cudaError_t uncaptured(runtime& r, CUstream_st& stream) {
  if (stream.captured) return r.spoil(stream.captured, cudaErrorStreamCaptureUnsupported);
  if (stream.legacy)
    for (const auto& other : r.streams)
      if (other->captured && other->blocking() && other->device == stream.device)
        return r.spoil(other->captured, cudaErrorStreamCaptureImplicit);
  return r.unsafe_now();
}

cudaError_t uncaptured(runtime& r, cudaEvent_t event) {
  if (!r.events.count(event)) return cudaErrorInvalidResourceHandle;
  if (!event->captured) return r.unsafe_now();
  return event->captured->open ? r.spoil(event->captured, cudaErrorCapturedEvent) : cudaErrorCapturedEvent;
}

bool reached(const completed& c) { return !c || c->reached; }

cudaError_t wait_in_capture(runtime& r, CUstream_st& stream, cudaEvent_t event) {
  if (!event->captured) {
    if (reached(event->recorded) && !event->recorded) return cudaSuccess;  // never recorded: nothing to wait for
    return r.spoil(stream.captured, cudaErrorStreamCaptureIsolation);
  }
  if (event->captured != stream.captured) return r.spoil(stream.captured, cudaErrorStreamCaptureMerge);
  if (!stream.captured->valid) return cudaErrorStreamCaptureInvalidated;
  stream.tips.insert(event->tips.begin(), event->tips.end());
  return cudaSuccess;
}

cudaError_t join_capture(CUstream_st& stream, cudaEvent_t event) {
  if (!event->captured->open) return cudaErrorCapturedEvent;
  if (!event->captured->valid) return cudaErrorStreamCaptureInvalidated;
  if (stream.legacy) return cudaErrorStreamCaptureImplicit;
  stream.captured = event->captured;
  stream.tips = event->tips;
  return cudaSuccess;
}

}  // namespace

extern "C" {

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority) {
  return call([&](runtime& r) {
    if (flags != cudaStreamDefault && flags != cudaStreamNonBlocking) return cudaErrorInvalidValue;
    *stream = &r.add_stream(this_thread().device, flags, std::clamp(priority, -5, 0));
    return cudaSuccess;
  });
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) { return cudaStreamCreateWithPriority(stream, flags, 0); }
cudaError_t cudaStreamCreate(cudaStream_t* stream) { return cudaStreamCreateWithPriority(stream, cudaStreamDefault, 0); }

cudaError_t cudaStreamDestroy(cudaStream_t handle) {
  return releasing_call([&](runtime& r) {
    if (r.stream_of(handle) != handle || !handle) return cudaErrorInvalidResourceHandle;
    CUstream_st& stream = *handle;
    if (stream.captured) {
      stream.captured->valid = false;
      if (stream.captured->origin == &stream) stream.captured->origin = nullptr;
      stream.captured.reset();
    }
    r.remove_stream(stream);
    return cudaSuccess;
  });
}

cudaError_t cudaStreamQuery(cudaStream_t handle) {
  return stream_call(handle, [](runtime& r, CUstream_st& stream) {
    if (const auto error = uncaptured(r, stream); error != cudaSuccess) return error;
    r.look();
    return reached(stream.last) ? cudaSuccess : cudaErrorNotReady;
  });
}

cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  return stream_call(handle, [](runtime& r, CUstream_st& stream) {
    if (const auto error = uncaptured(r, stream); error != cudaSuccess) return error;
    std::vector<completed> all = {stream.last};
    if (stream.legacy)  // it comes after the blocking streams
      for (const auto& other : r.streams)
        if (other->device == stream.device && other->blocking()) all.push_back(other->last);
    return r.wait_for(stream.device, all);
  });
}

cudaError_t cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t event, unsigned flags) {
  return stream_call(handle, [&](runtime& r, CUstream_st& stream) {
    if (!r.events.count(event)) return cudaErrorInvalidResourceHandle;
    if (flags != cudaEventWaitDefault) return cudaErrorNotSupported;
    if (stream.captured) return wait_in_capture(r, stream, event);
    if (event->captured) return join_capture(stream, event);
    operation wait{.what = "wait"};
    if (!reached(event->recorded)) wait.after = {event->recorded};
    return r.enqueue(stream, std::move(wait));
  });
}

cudaError_t cudaStreamGetFlags(cudaStream_t handle, unsigned* flags) {
  return stream_call(handle, [&](runtime&, CUstream_st& stream) {
    *flags = stream.flags;
    return cudaSuccess;
  });
}

cudaError_t cudaStreamGetPriority(cudaStream_t handle, int* priority) {
  return stream_call(handle, [&](runtime&, CUstream_st& stream) {
    *priority = stream.priority;
    return cudaSuccess;
  });
}

cudaError_t cudaStreamGetDevice(cudaStream_t handle, int* device) {
  return stream_call(handle, [&](runtime&, CUstream_st& stream) {
    *device = stream.device;
    return cudaSuccess;
  });
}

cudaError_t cudaStreamGetId(cudaStream_t handle, unsigned long long* id) {
  return stream_call(handle, [&](runtime&, CUstream_st& stream) {
    *id = stream.number;
    return cudaSuccess;
  });
}

cudaError_t cudaLaunchHostFunc(cudaStream_t handle, cudaHostFn_t function, void* argument) {
  return stream_call(handle, [&](runtime& r, CUstream_st& stream) {
    if (!function) return cudaErrorInvalidValue;
    return r.enqueue(stream, {.what = "host function", .run = [=] { function(argument); }, .on_host = true});
  });
}

// --- events
// -------------------------------------------------------------------------------------------------------------------------------

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  return call([&](runtime& r) {
    if (flags & ~unsigned{cudaEventBlockingSync | cudaEventDisableTiming}) return cudaErrorInvalidValue;
    *event = new CUevent_st{.flags = flags, .device = this_thread().device};
    r.events.insert(*event);
    return cudaSuccess;
  });
}

cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, cudaEventDefault); }

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  return releasing_call([&](runtime& r) {
    if (r.events.erase(event) == 0) return cudaErrorInvalidResourceHandle;
    delete event;
    return cudaSuccess;
  });
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t handle, unsigned flags) {
  return stream_call(handle, [&](runtime& r, CUstream_st& stream) {
    if (!r.events.count(event) || event->device != stream.device) return cudaErrorInvalidResourceHandle;
    if (flags != cudaEventRecordDefault) return cudaErrorNotSupported;
    if (stream.captured) {
      if (!stream.captured->valid) return cudaErrorStreamCaptureInvalidated;
      event->captured = stream.captured;
      event->tips = stream.tips;
      return cudaSuccess;
    }
    if (const auto error = r.enqueue(stream, {.what = "record"}); error != cudaSuccess) return error;
    event->captured.reset();
    event->recorded = stream.last;
    return cudaSuccess;
  });
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t handle) {
  return cudaEventRecordWithFlags(event, handle, cudaEventRecordDefault);
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  return call([&](runtime& r) {
    if (const auto error = uncaptured(r, event); error != cudaSuccess) return error;
    r.look();
    return reached(event->recorded) ? cudaSuccess : cudaErrorNotReady;
  });
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  return call([&](runtime& r) {
    if (const auto error = uncaptured(r, event); error != cudaSuccess) return error;
    return r.wait_for(event->device, {event->recorded});
  });
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  return call([&](runtime& r) {
    for (const auto event : {start, end}) {
      if (!r.events.count(event) || (event->flags & cudaEventDisableTiming) || !event->recorded) return cudaErrorInvalidResourceHandle;
      if (event->captured) return cudaErrorCapturedEvent;
    }
    if (start->device != end->device) return cudaErrorInvalidResourceHandle;
    if (!start->recorded->reached || !end->recorded->reached) return cudaErrorNotReady;
    *milliseconds = static_cast<float>(end->recorded->time - start->recorded->time);
    return cudaSuccess;
  });
}

}  // extern "C"
