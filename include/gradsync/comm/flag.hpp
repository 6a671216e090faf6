// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// A counter that one thread raises and others wait for.
///
/// A waiter spins for about the time a near peer needs, then gives its core away, then sleeps: as fast as spinning when there is a core
/// for each rank, and as fast as yielding when there is not. Raising costs one store, which nobody waits for, and a system call only if
/// somebody sleeps. So a raise may overlook one who is just lying down: the first naps are short.
#pragma once

#include <atomic>
#include <chrono>
#include <climits>
#include <cstdint>
#include <thread>

#if defined(__linux__)
#include <linux/futex.h>  // a sleep that ends with the counter's next change
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace gradsync {

/// Who raises and waits: threads of one process, or processes that have it in memory that they share.
enum class flag_scope { threads, processes };

template <flag_scope Scope>
class basic_flag {
 public:
  /// Counters wrap around: `target` may lie up to 2^31 ahead.
  bool reached(std::uint32_t target) const { return static_cast<std::int32_t>(value_.load(std::memory_order_acquire) - target) >= 0; }
  std::uint32_t value() const { return value_.load(std::memory_order_acquire); }

  /// What was written before is seen by whoever sees the value.
  void raise(std::uint32_t value) {
    value_.store(value, std::memory_order_release);
    if (sleepers_.load(std::memory_order_relaxed) != 0) wake();
  }

  /// As `wake`, and costs next to nothing where nobody sleeps.
  void nudge() {
    if (sleepers_.load(std::memory_order_seq_cst) != 0) wake();
  }

  /// Ends the sleep of all waiters, which then look at `keep_waiting` again.
  void wake() {
#if defined(__linux__)
    syscall(SYS_futex, &value_, Scope == flag_scope::threads ? FUTEX_WAKE_PRIVATE : FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
#endif
  }

  /// Returns when `target` is reached. `keep_waiting()` is asked between naps (at most 20 ms); it ends the wait by returning false or
  /// throwing. `pauses`: how long to spin first, which is in vain where the one that raises needs this very processor.
  template <class F>
  bool wait(std::uint32_t target, F&& keep_waiting, int pauses = 100) {
    for (int i = 0; i < pauses; ++i) {
      if (reached(target)) return true;
      pause();
    }
    for (int i = 0; i < 200; ++i) {
      if (reached(target)) return true;
      const auto before = std::chrono::steady_clock::now();
      std::this_thread::yield();
      // Somebody computes on this core and has had a whole slice of it; a sleeper that is woken gets it back at once.
      if (std::chrono::steady_clock::now() - before > std::chrono::microseconds(500)) break;
    }
    const sleeper here(sleepers_);
    for (int naps = 0;; ++naps) {
      const std::uint32_t seen = value_.load(std::memory_order_seq_cst);
      if (static_cast<std::int32_t>(seen - target) >= 0) return true;
      if (!keep_waiting()) return reached(target);
      nap(seen, naps < 3 ? 100'000 : 20'000'000);
    }
  }

 private:
  struct sleeper {
    explicit sleeper(std::atomic<std::uint32_t>& count) : count_(count) { count_.fetch_add(1, std::memory_order_seq_cst); }
    ~sleeper() { count_.fetch_sub(1, std::memory_order_relaxed); }
    sleeper(const sleeper&) = delete;
    sleeper& operator=(const sleeper&) = delete;
    std::atomic<std::uint32_t>& count_;
  };

  static void pause() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
  }

  void nap(std::uint32_t seen, [[maybe_unused]] long nanoseconds) {
#if defined(__linux__)
    const timespec limit{0, nanoseconds};
    syscall(SYS_futex, &value_, Scope == flag_scope::threads ? FUTEX_WAIT_PRIVATE : FUTEX_WAIT, seen, &limit, nullptr, 0);
#else
    static_cast<void>(seen);
    std::this_thread::sleep_for(std::chrono::microseconds(50));
#endif
  }

  std::atomic<std::uint32_t> value_{0};
  std::atomic<std::uint32_t> sleepers_{0};
};

using flag = basic_flag<flag_scope::threads>;

}  // namespace gradsync
