// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// Where two cores are to each other at this moment. A virtual machine moves its cores between caches many times a minute, and dirty lines
/// pass between them at 15 GB/s or at 3: so each sample is labelled by the round trip before and after it, and only samples of one label
/// are compared.
///
///     bench::placement_probe probe;                       // on one rank; the others wait meanwhile
///     const double before = probe.round_trip_ns();
///     ...                                                  // the sample
///     const bench::placement label = bench::placement_between(before, probe.round_trip_ns());
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

#include "gradsync/comm/flag.hpp"

#if defined(__linux__)
#include <sched.h>
#endif

namespace bench {

/// The CPUs that the process might use when it started: before any of its threads was pinned.
inline const std::vector<int>& cpus_at_start() {
  static const std::vector<int> cpus = [] {
    std::vector<int> found;
#if defined(__linux__)
    cpu_set_t mask;
    if (sched_getaffinity(0, sizeof mask, &mask) == 0)
      for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
        if (CPU_ISSET(cpu, &mask)) found.push_back(cpu);
#endif
    if (found.empty()) found.push_back(0);
    return found;
  }();
  return cpus;
}
namespace detail {
inline const std::vector<int>& asked_before_main = cpus_at_start();
}

/// Binds the calling thread to the i-th of those CPUs, counted around.
inline void pin_to(int i) {
#if defined(__linux__)
  const std::vector<int>& cpus = cpus_at_start();
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(cpus[static_cast<std::size_t>(i) % cpus.size()], &one);
  sched_setaffinity(0, sizeof one, &one);
#else
  static_cast<void>(i);
#endif
}

enum class placement { near, far, mixed, alone };  ///< alone: there is one CPU

constexpr const char* name_of(placement p) {
  constexpr const char* names[] = {"near", "far", "mixed", "alone"};
  return names[static_cast<int>(p)];
}

/// Two cores under one cache answer in about 100 ns, under two in about 400.
inline constexpr double far_round_trip_ns = 200;

constexpr placement placement_between(double before_ns, double after_ns) {
  if (before_ns < 0 || after_ns < 0) return placement::alone;
  if (before_ns < far_round_trip_ns && after_ns < far_round_trip_ns) return placement::near;
  return before_ns >= far_round_trip_ns && after_ns >= far_round_trip_ns ? placement::far : placement::mixed;
}

/// Passes a counter to and fro between the calling thread, which should be pinned to another CPU, and a thread of its own on CPU `there`.
class placement_probe {
 public:
  explicit placement_probe(int there = 1) : two_(cpus_at_start().size() > 1) {
    if (two_) answering_ = std::thread([this, there] { answer(there); });
  }
  ~placement_probe() {
    if (!two_) return;
    stop_.store(true);
    asked_.raise(asked_.value() + 1);
    answering_.join();
  }
  placement_probe(const placement_probe&) = delete;
  placement_probe& operator=(const placement_probe&) = delete;

  /// The median of some short stretches; takes about 50 us. Negative where there is one CPU.
  double round_trip_ns() {
    if (!two_) return -1;
    asked_.raise(asked_.value() + 1);
    std::array<double, stretches> of;
    for (double& ns : of) {
      const auto begin = std::chrono::steady_clock::now();
      for (int i = 0; i < trips; ++i) {
        const std::uint32_t next = ping_.load(std::memory_order_relaxed) + 1;
        ping_.store(next, std::memory_order_release);
        for (int spins = 0; pong_.load(std::memory_order_acquire) != next;) relax(spins);
      }
      ns = std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - begin).count() / trips;
    }
    std::nth_element(of.begin(), of.begin() + stretches / 2, of.end());
    return of[stretches / 2];
  }

 private:
  static constexpr int stretches = 15, trips = 20;

  // Between two looks at the other's counter: looking without a pause takes the line away from him, and doubles the round trip. Not for
  // ever: where somebody else has the other core, it is he whom the counter waits for.
  static void relax(int& spins) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
    if (++spins % 4096 == 0) std::this_thread::yield();
  }

  void answer(int there) {
    pin_to(there);
    for (std::uint32_t seen = 0;;) {
      asked_.wait(seen + 1, [] { return true; });
      ++seen;
      if (stop_.load()) return;
      std::uint32_t last = pong_.load(std::memory_order_relaxed);
      for (int i = 0; i < stretches * trips; ++i) {
        std::uint32_t next;
        for (int spins = 0; (next = ping_.load(std::memory_order_acquire)) == last;) relax(spins);
        pong_.store(last = next, std::memory_order_release);
      }
    }
  }

  bool two_;
  std::atomic<bool> stop_{false};
  gradsync::flag asked_;
  alignas(128) std::atomic<std::uint32_t> ping_{0};
  alignas(128) std::atomic<std::uint32_t> pong_{0};
  std::thread answering_;
};

}  // namespace bench
