// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// What the ranks of a group share about failure: the first cause, who had it, and who has returned. It stays until the group runs again.
///
/// A rank that fails says so before it unwinds, so that no peer waits for it; a peer that finds the group failed ends with a
/// `transport_error` that quotes the cause.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <exception>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "gradsync/core/deadline.hpp"
#include "gradsync/core/error.hpp"

namespace gradsync::detail {

class failure {
 public:
  failure(int size, clock_source clock) : clock_(clock), gone_(static_cast<std::size_t>(size)) {}

  /// Ends all ranks' waits. The first cause stays.
  void fail(int rank, std::exception_ptr cause) {
    const std::lock_guard hold(mutex_);
    if (failed_.load(std::memory_order_relaxed) < 0) set(rank, std::move(cause), true);
  }

  /// The same for a rank that is unwinding, from an exception that only its outermost function will see.
  void abandon(int rank, std::exception_ptr meanwhile) {
    const std::lock_guard hold(mutex_);
    if (failed_.load(std::memory_order_relaxed) < 0) set(rank, std::move(meanwhile), false);
  }

  /// From the outermost function: what the rank has really failed of.
  void conclude(int rank, std::exception_ptr cause) {
    const std::lock_guard hold(mutex_);
    const int first = failed_.load(std::memory_order_relaxed);
    if (first < 0 || (first == rank && !settled_)) set(rank, std::move(cause), true);
  }

  bool failed() const { return failed_.load(std::memory_order_seq_cst) >= 0; }
  std::exception_ptr cause() const { return cause_; }

  /// Throws what a rank is told of another's failure. Not to be called while the rank is in a peer's memory: waits, for a second at most,
  /// for an abandoning rank's real cause.
  [[noreturn]] void report(int rank) {
    std::unique_lock hold(mutex_);
    const int first = failed_.load(std::memory_order_relaxed);
    if (first != rank) changed_.wait_for(hold, std::chrono::seconds(1), [&] { return settled_; });
    throw transport_error("rank " + std::to_string(first) + " failed: " + text_, {.rank = rank, .step = -1, .bucket = -1, .parameter = {}});
  }

  void leave(int rank) {
    gone_[static_cast<std::size_t>(rank)].store(true, std::memory_order_release);
    const std::lock_guard hold(mutex_);
    if (failed_.load(std::memory_order_relaxed) == rank) settled_ = true;
    changed_.notify_all();
  }
  bool gone(int rank) const { return gone_[static_cast<std::size_t>(rank)].load(std::memory_order_acquire); }
  std::chrono::steady_clock::time_point now() const { return clock_(); }
  bool passed(const deadline& until) const { return until.passed(clock_); }

 private:
  clock_source clock_;
  void set(int rank, std::exception_ptr cause, bool settled) {
    settled_ = settled;
    cause_ = std::move(cause);
    try {
      std::rethrow_exception(cause_);
    } catch (const std::exception& e) {
      text_ = e.what();
    } catch (...) {
      text_ = "an exception of a type that gradsync does not know";
    }
    failed_.store(rank, std::memory_order_seq_cst);
    changed_.notify_all();
  }

  std::vector<std::atomic<bool>> gone_;
  std::atomic<int> failed_{-1};
  std::mutex mutex_;
  std::condition_variable changed_;
  bool settled_ = false;
  std::exception_ptr cause_;
  std::string text_;
};

}  // namespace gradsync::detail
