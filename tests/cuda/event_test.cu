// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0
#include "gradsync/cuda/event.hpp"

#include <doctest/doctest.h>

#include <utility>

#include "gradsync/cuda/memory.hpp"
#include "tests/cuda_standin/standin.hpp"

using namespace gradsync;

TEST_CASE("a stream that an event delays comes after its last record, and an event that was never recorded delays nobody") {
  for (unsigned seed = 1; seed <= 100; ++seed) {
    standin::seed(seed);
    cudaStream_t a = nullptr, b = nullptr;
    check(cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
    check(cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
    const auto from = pinned_memory(2), to = pinned_memory(1), there = device_memory(1, 0);
    from.get()[0] = std::byte{1}, from.get()[1] = std::byte{2};
    cuda_event first(0), moved(std::move(first));
    CHECK(moved.done());
    moved.delay(b);
    const auto copy = [](std::byte* target, const std::byte* source, cudaMemcpyKind kind, cudaStream_t s) {
      check(cudaMemcpyAsync(target, source, 1, kind, s), "cudaMemcpyAsync");
    };
    copy(there.get(), from.get(), cudaMemcpyHostToDevice, a);
    moved.record(a);
    copy(there.get(), from.get() + 1, cudaMemcpyHostToDevice, a);
    moved.record(a);
    moved.delay(b);
    copy(to.get(), there.get(), cudaMemcpyDeviceToHost, b);
    check(cudaStreamSynchronize(b), "cudaStreamSynchronize");
    CHECK(to.get()[0] == std::byte{2});
    CHECK(moved.done());
    check(cudaStreamDestroy(a), "cudaStreamDestroy");
    check(cudaStreamDestroy(b), "cudaStreamDestroy");
  }
  CHECK(standin::alive().empty());
}

TEST_CASE("an event that is assigned to another gives its own away, and knows its device from wherever it is recorded") {
  cuda_event a(0), b(1);
  a = std::move(b);
  CHECK(a.device() == 1);
  CHECK(current_device() == 0);
  a.record(nullptr);  // the default stream of its device
  a.delay(nullptr);
  CHECK_THROWS_AS(cuda_event(1000), usage_error);
}
