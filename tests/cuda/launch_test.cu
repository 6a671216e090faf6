// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0
#include "gradsync/cuda/launch.hpp"

#include <doctest/doctest.h>

#include <vector>

#include "gradsync/cuda/device.hpp"
#include "gradsync/cuda/memory.hpp"
#include "tests/cuda_standin/standin.hpp"

using namespace gradsync;
using namespace gradsync::detail;

TEST_CASE("a launch does its body once to each element of all runs, wherever they begin and end, and to nothing beside them") {
  constexpr std::size_t longest = 2 * tile_length<copy_body<std::uint32_t>> + 9, room = longest + 16;
  for (const std::size_t n : {std::size_t{1}, std::size_t{5}, std::size_t{1023}, longest})
    for (const std::size_t off : {0u, 1u, 3u}) {
      const auto there = device_memory(2 * room * sizeof(std::uint32_t), 0);
      std::vector<std::uint32_t> before(2 * room), after(2 * room);
      for (std::size_t i = 0; i < before.size(); ++i) before[i] = static_cast<std::uint32_t>(i + 1);
      check(cudaMemcpy(there.get(), before.data(), 2 * room * sizeof(std::uint32_t), cudaMemcpyHostToDevice), "cudaMemcpy");
      auto* const words = reinterpret_cast<std::uint32_t*>(there.get());
      std::byte* const at[] = {reinterpret_cast<std::byte*>(words + off), reinterpret_cast<std::byte*>(words + room + off)};
      run_list list{};
      list.views = 2;
      list.push<copy_body<std::uint32_t>>(at, n);
      launch_map(nullptr, copy_body<std::uint32_t>{}, list);
      check(cudaMemcpy(after.data(), there.get(), 2 * room * sizeof(std::uint32_t), cudaMemcpyDeviceToHost), "cudaMemcpy");
      std::vector<std::uint32_t> expected = before;
      for (std::size_t i = 0; i < n; ++i) expected[off + i] = before[room + off + i];
      CHECK(after == expected);
    }
}

TEST_CASE("nothing to do is no launch, and a stream of another device is refused") {
  standin::seed(0);
  run_list nothing{};
  nothing.views = 2;
  launch_map(nullptr, copy_body<std::uint32_t>{}, nothing);
  CHECK(standin::executed().empty());
  cudaStream_t elsewhere = nullptr;
  {
    const on_device there(1);
    check(cudaStreamCreateWithFlags(&elsewhere, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  }
  const auto memory = device_memory(64, 0);
  std::byte* const at[] = {memory.get(), memory.get() + 32};
  run_list list{};
  list.views = 2;
  list.push<copy_body<std::uint32_t>>(at, 4);
  CHECK_THROWS_AS(launch_map(elsewhere, copy_body<std::uint32_t>{}, list), usage_error);
  check(cudaStreamDestroy(elsewhere), "cudaStreamDestroy");
}
