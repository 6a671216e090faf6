// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// What happened to the buckets of a rank, step by step. One recorder a rank; the synchronizer writes to it in `finish()`, on the calling
/// thread.
///
///     gradsync::recorder recorder{comm.rank()};
///     gradsync::synchronizer sync{net, comm, {.recorder = &recorder}};
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "gradsync/core/series.hpp"

namespace gradsync {

using time_point = std::chrono::steady_clock::time_point;

/// A bucket's way through one update.
struct bucket_times {
  time_point ready, start, end;  ///< all its gradients marked; its collective first driven; the mean in place
  /// How long communication was about this bucket, waits for peers included: driven by a thread, from when it was ready and its turn had
  /// come; driven at marks, the time that the calling thread gave to it.
  std::chrono::nanoseconds busy{};
  std::chrono::nanoseconds exposed{};  ///< the part of it in which the calling thread could not compute; at marks, all of it
  std::string strategy{};              ///< what sums it

  /// Ready now, in a new update.
  void restart() {
    ready = std::chrono::steady_clock::now();
    start = end = {};
    busy = exposed = {};
  }
};

/// Fills in `busy` and `exposed` of an update's buckets that a thread drove one after the other, while the calling thread computed until it
/// `called` finish().
inline void settle(series<bucket_times>& buckets, time_point called) {
  time_point previous{};
  for (bucket_times& t : buckets) {
    const time_point from = std::max(t.ready, std::exchange(previous, t.end));
    t.busy = t.end - from;
    t.exposed = std::max(t.end - std::max(from, called), std::chrono::nanoseconds{});
  }
}

/// One update of one rank.
struct step_times {
  std::int64_t step = 0;
  time_point begin, finish, end;  ///< of the last micro-step: its begin, the call of finish(), its return
  series<bucket_times> buckets;
  bool replanned = false;  ///< at its end buckets were planned anew: those of later updates are others
};

class recorder {
 public:
  /// Keeps up to `steps` updates; what comes later is counted, not kept.
  explicit recorder(int rank, std::size_t steps = 100'000) : rank_(rank), limit_(steps) {}

  void record(const step_times& step) {
    if (steps_.size() < limit_) steps_.push_back(step);
    else ++dropped_;
  }

  int rank() const { return rank_; }
  const series<step_times>& steps() const { return steps_; }
  std::size_t dropped() const { return dropped_; }

 private:
  int rank_;
  std::size_t limit_, dropped_ = 0;
  series<step_times> steps_;
};

}  // namespace gradsync
