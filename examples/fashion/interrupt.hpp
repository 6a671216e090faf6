// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// Ctrl-C, taken as a wish: the first one is noted, and the training leaves at the end of a batch; the second one kills at once.
///
/// The signal comes at some moment, but no rank may leave alone: the others would wait for it in the next exchange. So each rank asks
/// `interrupted()` before a batch and takes part in a small all-reduce of the answers; all see the same maximum, and leave together.
///
///     fashion::interrupt_watch watch;
///     if (comm.all_reduce(fashion::interrupted(), gradsync::reduce_op::max) != 0) break;
#pragma once

#include <atomic>
#include <csignal>

namespace fashion {

namespace detail {
inline std::atomic<int> signal_seen{0};
static_assert(std::atomic<int>::is_always_lock_free);  // what a signal handler may touch
}  // namespace detail

/// The number of the signal that came, or 0.
inline int interrupted() { return detail::signal_seen.load(std::memory_order_relaxed); }

/// While it lives, SIGINT and SIGTERM are noted. One at a time in a process; not for use while other threads change signal actions.
class interrupt_watch {
 public:
  interrupt_watch() {
    detail::signal_seen = 0;
    struct sigaction action {};
    action.sa_handler = [](int signal) { detail::signal_seen.store(signal, std::memory_order_relaxed); };
    sigemptyset(&action.sa_mask);
    action.sa_flags = static_cast<int>(SA_RESETHAND) | SA_RESTART;  // the second signal finds the default action, which kills
    sigaction(SIGINT, &action, &before_interrupt_);
    sigaction(SIGTERM, &action, &before_terminate_);
  }
  ~interrupt_watch() {
    sigaction(SIGINT, &before_interrupt_, nullptr);
    sigaction(SIGTERM, &before_terminate_, nullptr);
  }
  interrupt_watch(const interrupt_watch&) = delete;
  interrupt_watch& operator=(const interrupt_watch&) = delete;

 private:
  struct sigaction before_interrupt_ {
  }, before_terminate_{};
};

}  // namespace fashion
