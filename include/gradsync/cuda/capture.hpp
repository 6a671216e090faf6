// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// Work that is captured into a CUDA graph instead of being done, and what may not be asked for meanwhile.
///
///     if (is_capturing(stream)) throw usage_error("total_weight() waits for the device ...");
///     const uncaptured meanwhile;        // allocations and questions in this scope have nothing to do with the capture
///     graphs.add(stream);                // a captured_graphs, which from now on knows whether the graph is alive
#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <utility>

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

/// How many CUDA graphs are alive that have captured something of their owner's. Each counts until it, and what was instantiated from it,
/// are destroyed and done; CUDA tells of that by a thread of its own, soon afterwards.
class captured_graphs {
 public:
  int alive() const { return alive_->load(); }

  /// Counts the graph that `stream` is being captured into; once, however often it is added while its capture is the newest.
  void add(cudaStream_t stream) {
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    unsigned long long id = 0;
    cudaGraph_t graph = nullptr;
#if CUDART_VERSION >= 13000
    check(cudaStreamGetCaptureInfo(stream, &status, &id, &graph), "cudaStreamGetCaptureInfo");
#else
    check(cudaStreamGetCaptureInfo_v2(stream, &status, &id, &graph), "cudaStreamGetCaptureInfo_v2");
#endif
    if (status != cudaStreamCaptureStatusActive || id == newest_) return;
    auto held = std::make_unique<token>(alive_);
    const auto gone = [](void* p) { delete static_cast<token*>(p); };  // may call nothing of CUDA's
    cudaUserObject_t object = nullptr;
    check(cudaUserObjectCreate(&object, held.get(), gone, 1, cudaUserObjectNoDestructorSync), "cudaUserObjectCreate");
    held.release();
    const cudaError_t code = cudaGraphRetainUserObject(graph, object, 1, cudaGraphUserObjectMove);
    if (code != cudaSuccess) static_cast<void>(cudaUserObjectRelease(object, 1));
    check(code, "cudaGraphRetainUserObject");
    newest_ = id;
  }

  /// Whether none is alive. Those that have been destroyed get half a second in which CUDA may tell of it.
  bool gone() const {
    const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(500);
    while (alive() > 0 && std::chrono::steady_clock::now() < until) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return alive() == 0;
  }

 private:
  using counter = std::shared_ptr<std::atomic<int>>;
  struct token {
    explicit token(counter of) : alive(std::move(of)) { ++*alive; }
    ~token() { --*alive; }
    token(const token&) = delete;
    token& operator=(const token&) = delete;
    counter alive;
  };

  counter alive_ = std::make_shared<std::atomic<int>>(0);  // outlives the owner as long as a graph does
  unsigned long long newest_ = 0;                          // capture that was added; 0 is none's
};

}  // namespace gradsync
