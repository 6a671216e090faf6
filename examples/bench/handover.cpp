// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

// How fast does what another core has written come to this one? Two threads, each bound to a core, write a buffer each, and then both read
// the other's at once: the median over both.
//
//     bazel run -c opt //examples/bench:handover
#include <barrier>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <thread>
#include <vector>

#include "examples/bench/statistics.hpp"
#include "examples/bench/yardstick.hpp"

namespace {

double seconds_for(std::size_t count) {
  constexpr int repeats = 301;
  std::vector<float> buffers[2] = {std::vector<float>(count), std::vector<float>(count)};
  std::vector<double> took[2];
  std::barrier meet(2);
  const auto run = [&](std::size_t rank) {
    bench::pin_to(static_cast<int>(rank));
    for (int repeat = 0; repeat < repeats; ++repeat) {
      for (std::size_t i = 0; i < count; ++i) buffers[rank][i] = static_cast<float>(repeat);
      meet.arrive_and_wait();
      const float* const theirs = buffers[1 - rank].data();
      const auto begin = std::chrono::steady_clock::now();
      float sum = 0;
      for (std::size_t i = 0; i < count; i += 64 / sizeof(float)) sum += theirs[i];  // one of a line brings all of it
      bench::keep(sum);
      took[rank].push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
      meet.arrive_and_wait();
    }
  };
  std::thread other(run, 1);
  std::thread one(run, 0);
  one.join();
  other.join();
  took[0].insert(took[0].end(), took[1].begin(), took[1].end());
  return bench::median(took[0]);
}

}  // namespace

int main() {
  std::puts("   size   time\n    (B)   (us)  (GB/s)");
  for (std::size_t bytes = 16 << 10; bytes <= 1 << 20; bytes *= 2) {
    const double seconds = seconds_for(bytes / sizeof(float));
    std::printf("%7zu  %5.2f  %6.1f\n", bytes, 1e6 * seconds, 1e-9 * static_cast<double>(bytes) / seconds);
  }
}
