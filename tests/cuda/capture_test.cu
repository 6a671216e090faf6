// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0
#include "gradsync/cuda/capture.hpp"

#include <doctest/doctest.h>

#include <memory>

#include "gradsync/cuda/event.hpp"
#include "gradsync/cuda/memory.hpp"
#include "tests/cuda_standin/standin.hpp"

using namespace gradsync;

namespace {

struct captured_stream {
  explicit captured_stream(unsigned flags) {
    standin::reset();
    check(cudaStreamCreateWithFlags(&stream, flags), "cudaStreamCreateWithFlags");
    check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), "cudaStreamBeginCapture");
  }
  ~captured_stream() { static_cast<void>(cudaStreamDestroy(stream)); }
  cudaError_t end() {
    cudaGraph_t graph = nullptr;
    const cudaError_t code = cudaStreamEndCapture(stream, &graph);
    if (graph != nullptr) check(cudaGraphDestroy(graph), "cudaGraphDestroy");
    cudaGetLastError();
    return code;
  }
  cudaStream_t stream = nullptr;
};

}  // namespace

TEST_CASE("a stream is being captured from the beginning to the end, and with it the legacy stream, unless it is a non-blocking one") {
  for (const unsigned flags : {cudaStreamDefault, cudaStreamNonBlocking}) {
    captured_stream s(flags);
    CHECK(is_capturing(s.stream));
    CHECK(is_capturing(nullptr) == (flags == cudaStreamDefault));
    CHECK(cudaPeekAtLastError() == cudaSuccess);
    CHECK(s.end() == cudaSuccess);
    CHECK_FALSE(is_capturing(s.stream));
    CHECK_FALSE(is_capturing(nullptr));
  }
}

TEST_CASE("what has nothing to do with a capture spoils it, unless it is said so") {
  const auto ask = [] {
    cuda_event event(0);
    return cudaEventQuery(event.native());
  };
  captured_stream spoilt(cudaStreamNonBlocking);
  CHECK(blames_capture(ask()));
  CHECK(blames_capture(spoilt.end()));
  captured_stream kept(cudaStreamNonBlocking);
  {
    const uncaptured meanwhile;
    CHECK(ask() == cudaSuccess);
  }
  CHECK(kept.end() == cudaSuccess);
  CHECK_FALSE(blames_capture(cudaErrorInvalidValue));
  CHECK_FALSE(blames_capture(cudaSuccess));
}

TEST_CASE("a graph that was captured is alive until it, and what was made of it, are destroyed") {
  for (unsigned seed = 0; seed < 20; ++seed) {
    standin::seed(seed);
    auto graphs = std::make_unique<captured_graphs>();
    captured_stream first(cudaStreamNonBlocking);
    for (int i = 0; i < 3; ++i) graphs->add(first.stream);
    CHECK(graphs->alive() == 1);
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t executable = nullptr;
    check(cudaStreamEndCapture(first.stream, &graph), "cudaStreamEndCapture");
    check(cudaGraphInstantiate(&executable, graph, 0), "cudaGraphInstantiate");
    check(cudaStreamBeginCapture(first.stream, cudaStreamCaptureModeGlobal), "cudaStreamBeginCapture");
    graphs->add(first.stream);
    CHECK(graphs->alive() == 2);
    CHECK(first.end() == cudaSuccess);
    check(cudaGraphDestroy(graph), "cudaGraphDestroy");
    standin::alive();  // waits until CUDA has told all there is to tell
    CHECK(graphs->alive() == 1);
    if (seed % 2 == 0) graphs.reset();  // what a graph tells later, it tells nobody
    check(cudaGraphExecDestroy(executable), "cudaGraphExecDestroy");
    if (graphs != nullptr) CHECK(graphs->gone());
  }
}

TEST_CASE("a capture that gives no graph leaves none alive, and without a capture there is nothing to add") {
  captured_graphs graphs;
  captured_stream spoilt(cudaStreamNonBlocking);
  graphs.add(spoilt.stream);
  CHECK(graphs.alive() == 1);
  CHECK(cudaStreamSynchronize(spoilt.stream) == cudaErrorStreamCaptureUnsupported);
  CHECK(spoilt.end() == cudaErrorStreamCaptureInvalidated);
  CHECK(graphs.gone());
  graphs.add(spoilt.stream);
  CHECK(graphs.alive() == 0);
}
