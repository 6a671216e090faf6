// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0
#include "gradsync/cuda/check.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace gradsync;

namespace {

template <class F>
std::string message_of(F&& f) {
  try {
    f();
  } catch (const error& e) {
    return e.message();
  }
  return "nothing was thrown";
}

}  // namespace

TEST_CASE("a failed call throws its words, its place, and CUDA's name and sentence for the error") {
  check(cudaSuccess, "cudaFree");
  const std::string message = message_of([] { check(cudaSetDevice(1000), "cudaSetDevice"); });
  CHECK(message.starts_with("cudaSetDevice at check_test.cu:"));
  CHECK(message.find(": cudaErrorInvalidDevice: " + std::string(cudaGetErrorString(cudaErrorInvalidDevice))) != std::string::npos);
  CHECK(cudaPeekAtLastError() == cudaSuccess);  // no later launch is blamed for it
}

TEST_CASE("who asked for what there is not gets a usage_error, a device that failed is lost to its peers") {
  CHECK_THROWS_AS(check(cudaErrorInvalidValue, "f"), cuda_usage_error);
  CHECK_THROWS_AS(check(cudaErrorStreamCaptureUnsupported, "f"), usage_error);
  CHECK_THROWS_AS(check(cudaErrorIllegalAddress, "f"), cuda_error);
  CHECK_THROWS_AS(check(cudaErrorMemoryAllocation, "f"), transport_error);
  try {
    check(cudaErrorLaunchFailure, "f");
  } catch (const cuda_error& e) {
    CHECK(e.code == cudaErrorLaunchFailure);
  }
}
