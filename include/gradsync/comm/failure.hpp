// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// What the ranks of a group share about failure: the first cause, who had it, and who has returned. It stays until the group runs again.
///
/// A rank that fails says so before it unwinds, so that no peer waits for it; a peer that finds the group failed ends with a
/// `transport_error` that quotes the cause.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <exception>
#include <mutex>  // the cause is written once
#include <string>
#include <utility>
#include <vector>

#include "gradsync/core/deadline.hpp"
#include "gradsync/core/error.hpp"

namespace gradsync::detail {

class failure {
 public:
  failure(int size, clock_source clock) : clock_(clock), gone_(static_cast<std::size_t>(size)) {}

  void fail(int rank, std::exception_ptr cause) {
    const std::lock_guard hold(mutex_);
    if (failed_.load(std::memory_order_relaxed) >= 0) return;
    cause_ = std::move(cause);
    try {
      std::rethrow_exception(cause_);
    } catch (const std::exception& e) {
      text_ = e.what();
    } catch (...) {
      text_ = "an exception of a type that gradsync does not know";
    }
    failed_.store(rank, std::memory_order_seq_cst);
  }

  bool failed() const { return failed_.load(std::memory_order_seq_cst) >= 0; }
  std::exception_ptr cause() const { return cause_; }

  [[noreturn]] void report(int rank) {
    const std::lock_guard hold(mutex_);
    throw transport_error("rank " + std::to_string(failed_.load()) + " failed: " + text_,
                          {.rank = rank, .step = -1, .bucket = -1, .parameter = {}});
  }

  void leave(int rank) { gone_[static_cast<std::size_t>(rank)].store(true, std::memory_order_release); }
  bool gone(int rank) const { return gone_[static_cast<std::size_t>(rank)].load(std::memory_order_acquire); }
  std::chrono::steady_clock::time_point now() const { return clock_(); }
  bool passed(const deadline& until) const { return until.passed(clock_); }

 private:
  clock_source clock_;
  std::vector<std::atomic<bool>> gone_;
  std::atomic<int> failed_{-1};
  std::mutex mutex_;
  std::exception_ptr cause_;
  std::string text_;
};

}  // namespace gradsync::detail
