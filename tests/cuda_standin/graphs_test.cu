// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

// Capture and graphs on the stand-in: what a graph keeps, and which calls a capture does not survive.
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "tests/cuda_standin/for_each_index.hpp"

namespace {

using standin::add;
using standin::fill;
using standin::for_each_index;
using standin::scale;

constexpr std::size_t n = 50, bytes = n * sizeof(float);

struct rig {
  cudaStream_t a = nullptr, b = nullptr;
  cudaEvent_t forked = nullptr, joined = nullptr;
  float *x = nullptr, *y = nullptr, *pinned = nullptr;

  rig() {
    standin::reset();
    standin::devices(2);
    standin::seed(0);
    cudaSetDevice(0);
    for (auto* stream : {&a, &b}) cudaStreamCreateWithFlags(stream, cudaStreamNonBlocking);
    for (auto* event : {&forked, &joined}) cudaEventCreateWithFlags(event, cudaEventDisableTiming);
    for (auto** p : {&x, &y}) cudaMalloc(reinterpret_cast<void**>(p), bytes);
    cudaMallocHost(reinterpret_cast<void**>(&pinned), bytes);
  }
  ~rig() {
    for (auto* stream : {a, b}) cudaStreamDestroy(stream);
    for (auto* event : {forked, joined}) cudaEventDestroy(event);
    standin::reset();
  }

  void begin(cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal) { REQUIRE(cudaStreamBeginCapture(a, mode) == cudaSuccess); }
  cudaError_t end() {
    cudaGraph_t graph = nullptr;
    const auto error = cudaStreamEndCapture(a, &graph);
    CHECK((graph == nullptr) == (error != cudaSuccess));
    if (graph) cudaGraphDestroy(graph);
    cudaGetLastError();
    return error;
  }
  cudaStreamCaptureStatus status(cudaStream_t stream) {
    auto now = cudaStreamCaptureStatusNone;
    CHECK(cudaStreamIsCapturing(stream, &now) == cudaSuccess);
    return now;
  }
};

// x = 3, and beside it y = 4 on a branch of its own; then x = 2 · (x + y) in pinned memory.
void fork_and_join(rig& r, bool fork, bool join) {
  for_each_index(r.a, n, fill{r.x, 3});
  if (fork) {
    cudaEventRecord(r.forked, r.a);
    cudaStreamWaitEvent(r.b, r.forked, 0);
  }
  for_each_index(r.b, n, fill{r.y, 4});
  cudaEventRecord(r.joined, r.b);
  if (join) cudaStreamWaitEvent(r.a, r.joined, 0);
  for_each_index(r.a, n, add{r.x, r.y});
  for_each_index(r.a, n, scale{r.x, 2});
  cudaMemcpyAsync(r.pinned, r.x, bytes, cudaMemcpyDeviceToHost, r.a);
}

}  // namespace

TEST_CASE_FIXTURE(rig, "a graph does again what was captured, as often as it is launched, and nothing while it is captured") {
  begin();
  CHECK(status(a) == cudaStreamCaptureStatusActive);
  CHECK(status(b) == cudaStreamCaptureStatusNone);
  fork_and_join(*this, true, true);
  CHECK(status(b) == cudaStreamCaptureStatusActive);
  cudaGraph_t graph = nullptr;
  REQUIRE(cudaStreamEndCapture(a, &graph) == cudaSuccess);
  CHECK(status(b) == cudaStreamCaptureStatusNone);
  std::size_t nodes = 0;
  CHECK(cudaGraphGetNodes(graph, nullptr, &nodes) == cudaSuccess);
  CHECK(nodes == 5);
  cudaGraphExec_t step = nullptr;
  REQUIRE(cudaGraphInstantiate(&step, graph, 0) == cudaSuccess);
  CHECK(cudaGraphDestroy(graph) == cudaSuccess);
  std::fill_n(pinned, n, 0.0f);
  cudaDeviceSynchronize();
  CHECK(pinned[0] == 0);
  for (unsigned seed = 0; seed < 100; ++seed) {
    standin::seed(seed);
    std::fill_n(pinned, n, 0.0f);
    cudaGraphLaunch(step, a);
    for_each_index(a, n, add{pinned, pinned});  // comes after all of the graph
    CHECK(cudaStreamSynchronize(a) == cudaSuccess);
    CHECK(std::all_of(pinned, pinned + n, [](float v) { return v == 28; }));
  }
  CHECK(cudaGraphExecDestroy(step) == cudaSuccess);
}

TEST_CASE_FIXTURE(rig, "branches of a graph have no order between them") {
  begin();
  for_each_index(a, n, fill{x, 1});
  cudaEventRecord(forked, a);
  cudaStreamWaitEvent(b, forked, 0);
  for_each_index(b, n, add{x, x});
  cudaEventRecord(joined, b);
  for_each_index(a, n, fill{x, 10});  // a race with what b does
  cudaStreamWaitEvent(a, joined, 0);
  cudaMemcpyAsync(pinned, x, bytes, cudaMemcpyDeviceToHost, a);
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t step = nullptr;
  REQUIRE(cudaStreamEndCapture(a, &graph) == cudaSuccess);
  REQUIRE(cudaGraphInstantiate(&step, graph, 0) == cudaSuccess);
  unsigned tens = 0, twenties = 0;
  for (unsigned seed = 0; seed < 100; ++seed) {
    standin::seed(seed);
    cudaGraphLaunch(step, a);
    cudaStreamSynchronize(a);
    tens += pinned[0] == 10;
    twenties += pinned[0] == 20;
  }
  CHECK(tens > 0);
  CHECK(twenties > 0);
  CHECK(tens + twenties == 100);
  cudaGraphExecDestroy(step);
  cudaGraphDestroy(graph);
}

TEST_CASE_FIXTURE(rig, "what has to end in the capturing stream: each stream that forked, and the capture itself") {
  begin();
  fork_and_join(*this, true, false);
  CHECK(end() == cudaErrorStreamCaptureUnjoined);
  begin();
  for_each_index(a, n, fill{x, 3});
  cudaEventRecord(forked, a);
  cudaStreamWaitEvent(b, forked, 0);
  cudaGraph_t graph = nullptr;
  CHECK(cudaStreamEndCapture(b, &graph) == cudaErrorStreamCaptureUnmatched);
  CHECK(end() == cudaErrorStreamCaptureInvalidated);
}

TEST_CASE_FIXTURE(rig, "work that the capture does not see spoils it where it waits for that") {
  for_each_index(b, n, fill{y, 1});
  cudaEventRecord(joined, b);
  begin();
  CHECK(cudaStreamWaitEvent(a, joined, 0) == cudaErrorStreamCaptureIsolation);
  CHECK(status(a) == cudaStreamCaptureStatusInvalidated);
  for_each_index(a, n, fill{x, 1});
  CHECK(cudaGetLastError() == cudaErrorStreamCaptureInvalidated);
  CHECK(end() == cudaErrorStreamCaptureInvalidated);
  CHECK(status(a) == cudaStreamCaptureStatusNone);
}

TEST_CASE_FIXTURE(rig, "two captures don't merge") {
  begin();
  for_each_index(a, n, fill{x, 1});
  cudaEventRecord(forked, a);
  REQUIRE(cudaStreamBeginCapture(b, cudaStreamCaptureModeGlobal) == cudaSuccess);
  CHECK(cudaStreamWaitEvent(b, forked, 0) == cudaErrorStreamCaptureMerge);
  cudaGraph_t graph = nullptr;
  CHECK(cudaStreamEndCapture(b, &graph) == cudaErrorStreamCaptureInvalidated);
  CHECK(end() == cudaSuccess);
}

TEST_CASE_FIXTURE(rig, "calls that wait, ask or allocate spoil a capture") {
  using call = cudaError_t (*)(rig&);
  const call calls[] = {
      [](rig& r) { return cudaStreamSynchronize(r.a); },
      [](rig& r) { return cudaStreamQuery(r.a); },
      [](rig&) { return cudaDeviceSynchronize(); },
      [](rig& r) { return cudaEventQuery(r.joined); },
      [](rig& r) { return cudaEventSynchronize(r.joined); },
      [](rig& r) { return cudaFree(r.y); },
      [](rig&) {
        void* p = nullptr;
        return cudaMalloc(&p, 4);
      },
      [](rig&) {
        void* p = nullptr;
        return cudaMallocHost(&p, 4);
      },
      [](rig& r) { return cudaMemcpy(r.x, r.y, bytes, cudaMemcpyDeviceToDevice); },
  };
  for (const call one : calls) {
    begin();
    for_each_index(a, n, fill{x, 1});
    CHECK(one(*this) == cudaErrorStreamCaptureUnsupported);
    CHECK(end() == cudaErrorStreamCaptureInvalidated);
  }
}

TEST_CASE_FIXTURE(rig, "an event of a capture can be waited for in it only") {
  begin();
  for_each_index(a, n, fill{x, 1});
  cudaEventRecord(forked, a);
  CHECK(cudaEventQuery(forked) == cudaErrorCapturedEvent);
  CHECK(end() == cudaErrorStreamCaptureInvalidated);
  CHECK(cudaEventSynchronize(forked) == cudaErrorCapturedEvent);
  CHECK(cudaStreamWaitEvent(b, forked, 0) == cudaErrorCapturedEvent);
  cudaEventRecord(forked, b);
  CHECK(cudaEventSynchronize(forked) == cudaSuccess);
  cudaGetLastError();
}

TEST_CASE_FIXTURE(rig, "the mode says whose calls spoil a capture: all threads', its own thread's, or nobody's") {
  const auto elsewhere = [&] {
    cudaError_t error = cudaSuccess;
    std::thread([&] { error = cudaEventQuery(joined); }).join();
    return error;
  };
  begin(cudaStreamCaptureModeGlobal);
  CHECK(elsewhere() == cudaErrorStreamCaptureUnsupported);
  CHECK(end() == cudaErrorStreamCaptureInvalidated);
  begin(cudaStreamCaptureModeThreadLocal);
  CHECK(elsewhere() == cudaSuccess);
  CHECK(end() == cudaSuccess);
  begin(cudaStreamCaptureModeThreadLocal);
  CHECK(cudaEventQuery(joined) == cudaErrorStreamCaptureUnsupported);
  CHECK(end() == cudaErrorStreamCaptureInvalidated);
  begin(cudaStreamCaptureModeRelaxed);
  CHECK(cudaEventQuery(joined) == cudaSuccess);
  CHECK(end() == cudaSuccess);
  begin(cudaStreamCaptureModeGlobal);
  auto mode = cudaStreamCaptureModeRelaxed;
  cudaThreadExchangeStreamCaptureMode(&mode);
  CHECK(mode == cudaStreamCaptureModeGlobal);
  CHECK(cudaEventQuery(joined) == cudaSuccess);
  cudaThreadExchangeStreamCaptureMode(&mode);
  CHECK(end() == cudaSuccess);
}

TEST_CASE_FIXTURE(rig, "another thread can't end a capture, unless it is relaxed") {
  for (const auto mode : {cudaStreamCaptureModeGlobal, cudaStreamCaptureModeRelaxed}) {
    begin(mode);
    cudaError_t error = cudaSuccess;
    std::thread([&] { error = end(); }).join();
    CHECK(error == (mode == cudaStreamCaptureModeRelaxed ? cudaSuccess : cudaErrorStreamCaptureWrongThread));
    if (error != cudaSuccess) CHECK(end() == cudaSuccess);
  }
}

TEST_CASE_FIXTURE(rig, "the legacy stream can't be captured, and spoils the capture of a blocking stream") {
  CHECK(cudaStreamBeginCapture(nullptr, cudaStreamCaptureModeRelaxed) == cudaErrorStreamCaptureUnsupported);
  cudaStream_t blocking = nullptr;
  cudaStreamCreate(&blocking);
  REQUIRE(cudaStreamBeginCapture(blocking, cudaStreamCaptureModeRelaxed) == cudaSuccess);
  for_each_index(nullptr, n, fill{x, 1});
  CHECK(cudaGetLastError() == cudaErrorStreamCaptureImplicit);
  cudaGraph_t graph = nullptr;
  CHECK(cudaStreamEndCapture(blocking, &graph) == cudaErrorStreamCaptureInvalidated);
  cudaStreamDestroy(blocking);
}

namespace {

// What the destructor of a user object does, when it comes.
struct retained {
  cudaUserObject_t create() {
    cudaUserObject_t object = nullptr;
    const auto destructor = [](void* p) {
      auto& self = *static_cast<retained*>(p);
      self.thread = std::this_thread::get_id();
      self.refused = cudaDeviceSynchronize();
      ++self.destroyed;
    };
    REQUIRE(cudaUserObjectCreate(&object, this, destructor, 1, cudaUserObjectNoDestructorSync) == cudaSuccess);
    return object;
  }
  // When CUDA has called all destructors that it has to.
  int destroyed_by_now() {
    standin::alive();
    return destroyed;
  }
  std::atomic<int> destroyed{0};
  std::thread::id thread;
  cudaError_t refused = cudaSuccess;
};

}  // namespace

TEST_CASE_FIXTURE(rig, "what a graph retains lives as long as the graph and what was made of it") {
  retained kept;
  begin();
  for_each_index(a, n, fill{x, 1});
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t step = nullptr;
  REQUIRE(cudaStreamEndCapture(a, &graph) == cudaSuccess);
  REQUIRE(cudaGraphRetainUserObject(graph, kept.create(), 1, cudaGraphUserObjectMove) == cudaSuccess);
  REQUIRE(cudaGraphInstantiate(&step, graph, 0) == cudaSuccess);
  cudaGraphDestroy(graph);
  CHECK(kept.destroyed_by_now() == 0);
  standin::seed(0, standin::order::any, standin::pace::host_ahead);
  cudaGraphLaunch(step, a);
  cudaGraphExecDestroy(step);
  CHECK(kept.destroyed_by_now() == 0);  // it still runs
  cudaDeviceSynchronize();
  CHECK(kept.destroyed_by_now() == 1);
}

TEST_CASE_FIXTURE(rig, "a destructor is called at once or later, on another thread, and may not call CUDA") {
  bool late = false;
  for (unsigned seed = 0; seed < 20; ++seed) {
    standin::seed(seed);
    retained kept;
    const cudaUserObject_t object = kept.create();
    REQUIRE(cudaUserObjectRelease(object, 1) == cudaSuccess);
    late = late || kept.destroyed == 0;
    CHECK(kept.destroyed_by_now() == 1);
    CHECK(kept.thread != std::this_thread::get_id());
    CHECK(kept.refused == cudaErrorNotPermitted);
    CHECK(cudaUserObjectRelease(object, 1) == cudaErrorInvalidValue);
  }
  CHECK(late);
  cudaGetLastError();
}

TEST_CASE_FIXTURE(rig, "who keeps a reference of his own keeps the object, and is told of it where he forgets it") {
  retained kept;
  const cudaUserObject_t object = kept.create();
  begin();
  cudaGraph_t graph = nullptr;
  REQUIRE(cudaStreamEndCapture(a, &graph) == cudaSuccess);
  REQUIRE(cudaGraphRetainUserObject(graph, object, 1, 0) == cudaSuccess);
  CHECK(cudaGraphDestroy(graph) == cudaSuccess);
  CHECK(kept.destroyed_by_now() == 0);
  const auto left = standin::alive();
  CHECK(std::count(left.begin(), left.end(), "a user object with 1 references") == 1);
  REQUIRE(cudaUserObjectRelease(object, 1) == cudaSuccess);
  CHECK(kept.destroyed_by_now() == 1);
}
