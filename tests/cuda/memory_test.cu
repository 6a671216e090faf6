// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0
#include "gradsync/cuda/memory.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

#include "gradsync/core/aligned_bytes.hpp"
#include "gradsync/cuda/event.hpp"
#include "tests/cuda_standin/standin.hpp"

using namespace gradsync;

TEST_CASE("memory of a device comes zeroed and aligned, and goes back to that device from wherever it is let go of") {
  for (unsigned seed = 1; seed <= 20; ++seed) {
    standin::seed(seed);
    auto memory = device_memory(1000, 1);
    CHECK(current_device() == 0);
    CHECK(reinterpret_cast<std::uintptr_t>(memory.get()) % 256 == 0);
    cudaPointerAttributes about{};
    check(cudaPointerGetAttributes(&about, memory.get()), "cudaPointerGetAttributes");
    CHECK(about.device == 1);
    std::vector<char> bytes(1000, 'x');
    check(cudaMemcpy(bytes.data(), memory.get(), 1000, cudaMemcpyDeviceToHost), "cudaMemcpy");
    CHECK(bytes == std::vector<char>(1000, 0));
    memory.reset();
    CHECK(standin::alive().empty());
  }
  CHECK(device_memory(0, 0) == nullptr);
  CHECK_THROWS_AS(device_memory(1, 1000), usage_error);
}

TEST_CASE("pinned memory is the host's own to read and write") {
  const auto memory = pinned_memory(100);
  for (std::size_t i = 0; i < 100; ++i) CHECK(memory.get()[i] == std::byte{});
  memory.get()[99] = std::byte{7};
  CHECK(pinned_memory(0) == nullptr);
}

TEST_CASE("a communicator's memory can be of a device") {
  const aligned_bytes bucket(device_memory(64, 0), 64);
  CHECK(bucket.size() == 64);
}

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
    moved.synchronize();
    check(cudaStreamDestroy(a), "cudaStreamDestroy");
    check(cudaStreamDestroy(b), "cudaStreamDestroy");
  }
  CHECK(standin::alive().empty());
}
