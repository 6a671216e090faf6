// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0
#include "gradsync/cuda/capture.hpp"

#include <doctest/doctest.h>

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
