// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// Ranks over the NCCL that stands in.
#pragma once

#include <doctest/doctest.h>

#include <chrono>
#include <cstddef>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gradsync/comm/nccl.hpp"
#include "tests/cuda/device_vector.hpp"
#include "tests/cuda_standin/nccl_standin.hpp"
#include "tests/cuda_standin/standin.hpp"

namespace gradsync::tests {

/// Devices 0 to n - 1.
inline std::vector<int> first_devices(int n) {
  std::vector<int> all(static_cast<std::size_t>(n));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

/// Runs `body` on a rank a device of a new world, by the seed; and then looks whether NCCL was used as it has to be, and nothing is left.
template <class F>
void on_gpus(int size, F&& body, nccl_options options = {}, unsigned seed = 1, const standin::nccl::policy& policy = {}) {
  standin::reset();
  standin::devices(size);
  standin::seed(seed);
  standin::nccl::set(policy, seed);
  const auto look = [] {
    for (const std::string& fault : standin::nccl::faults()) CHECK_MESSAGE(fault.empty(), fault);
    CHECK(standin::nccl::alive() == 0);
  };
  try {
    nccl_group(first_devices(size), options).run([&](auto& comm) {
      body(comm);
      standin::nccl::end_of_thread();
    });
  } catch (...) {
    look();
    throw;
  }
  look();
  const auto left = standin::alive();
  for (const std::string& one : left) CHECK_MESSAGE(one.empty(), one);
}

/// One rank on device 0, in a new world.
inline std::shared_ptr<detail::nccl_link> alone(const nccl_options& options = {}) {
  standin::reset();
  standin::nccl::set({});
  const auto world = std::make_shared<detail::nccl_world>(1, options, std::make_shared<detail::failure>(1, options.clock));
  const auto dog = std::make_shared<detail::nccl_watchdog>(0, 0, options, world->outcome);
  return std::make_shared<detail::nccl_link>(detail::connect(detail::new_unique_id(), 0, 1, options), 0, world, dog);
}

/// What a CUDA graph has captured of `f`, which is given the stream.
template <class F>
cudaGraphExec_t captured(cudaStream_t user, F&& f) {
  check(cudaStreamBeginCapture(user, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
  f(user);
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  check(cudaStreamEndCapture(user, &graph), "cudaStreamEndCapture");
  check(cudaGraphInstantiate(&executable, graph, 0), "cudaGraphInstantiate");
  check(cudaGraphDestroy(graph), "cudaGraphDestroy");
  return executable;
}

/// Waits until CUDA has told that no more than `left` graphs are alive; whether that comes, and they are.
inline bool graphs_left(const nccl_communicator& comm, int left) {
  for (int i = 0; i < 5000 && comm.graphs_alive() > left; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return comm.graphs_alive() == left;
}

}  // namespace gradsync::tests
