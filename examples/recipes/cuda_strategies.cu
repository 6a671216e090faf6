// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

// What do the strategies take between ranks that reach each other's device memory?
//
//     bazel run -c opt //examples:cuda_strategies                 # four ranks on one GPU; without one it says so
//     bazel run -c opt //examples:cuda_strategies -- 8 0 1 2 3    # eight ranks on four GPUs
//
// Each strategy sums one gradient of 16 MiB, 20 times. Ranks that share a GPU share its memory bandwidth too, so this shows that all of
// them run and what their rounds cost, not what a cluster would take: simulate() in 08_simulator is for that.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "gradsync/adapt/thrust.hpp"
#include "gradsync/comm/cuda_peer.hpp"
#include "gradsync/gradsync.hpp"

struct param {
  thrust::device_vector<float> value, grad;
};

// Milliseconds of an update, the median of 20, and the first element of the mean.
template <class Strategy>
void measure(gradsync::cuda_peer_group& ranks, const Strategy& strategy) {
  ranks.run([&](auto& comm) {
    const std::size_t count = 4 << 20;
    param net{thrust::device_vector<float>(count), thrust::device_vector<float>(count)};
    gradsync::synchronizer sync{net, gradsync::collective{comm, strategy}};
    std::vector<double> ms;
    for (int update = 0; update < 20; ++update) {
      thrust::fill(net.grad.begin(), net.grad.end(), static_cast<float>(comm.rank()));
      cudaDeviceSynchronize();
      comm.barrier();
      const auto begin = std::chrono::steady_clock::now();
      sync.mark_all_ready();
      sync.finish();
      cudaStreamSynchronize(nullptr);  // the default stream now stands behind the last bucket
      comm.barrier();
      ms.push_back(std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count());
    }
    std::nth_element(ms.begin(), ms.begin() + 10, ms.end());
    if (comm.rank() == 0) std::printf("%-18s %8.3f ms   mean %g\n", strategy.name(), ms[10], float(net.grad[0]));
  });
}

int main(int argc, char** argv) {
  if (gradsync::device_count() == 0) return std::puts("no CUDA device: nothing to run on"), 0;
  std::vector<int> devices;
  for (int i = 2; i < argc; ++i) devices.push_back(std::atoi(argv[i]));
  if (devices.empty()) devices = {0};
  gradsync::cuda_peer_group ranks{argc > 1 ? std::atoi(argv[1]) : 4, devices};
  measure(ranks, gradsync::native{});
  measure(ranks, gradsync::direct{});
  measure(ranks, gradsync::ring{});
  measure(ranks, gradsync::tree{});
  measure(ranks, gradsync::halving_doubling{});
  measure(ranks, gradsync::recursive_doubling{});
  measure(ranks, gradsync::double_tree{});
}
