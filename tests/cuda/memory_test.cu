// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0
#include "gradsync/cuda/memory.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

#include "gradsync/core/aligned_bytes.hpp"
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

TEST_CASE("memory may be let go of while a stream still works in it") {
  for (unsigned seed = 1; seed <= 40; ++seed) {
    standin::seed(seed);
    cudaStream_t stream = nullptr;
    check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
    auto memory = device_memory(1000, 0);
    const auto from = pinned_memory(1000);
    check(cudaMemcpyAsync(memory.get(), from.get(), 1000, cudaMemcpyHostToDevice, stream), "cudaMemcpyAsync");
    memory.reset();
    CHECK(cudaStreamSynchronize(stream) == cudaSuccess);
    check(cudaStreamDestroy(stream), "cudaStreamDestroy");
  }
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
