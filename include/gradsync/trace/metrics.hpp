// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// Sums over updates: how long a rank communicated, and how much of that its backward pass could not hide.
///
///     const auto before = sync.metrics();
///     …one epoch…
///     std::cout << (sync.metrics() - before).exposed_seconds() << " s exposed\n";
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include "gradsync/core/series.hpp"
#include "gradsync/trace/recorder.hpp"

namespace gradsync {

struct bucket_metrics {
  std::chrono::nanoseconds busy{}, exposed{};
};

struct metrics {
  std::int64_t updates = 0;
  series<bucket_metrics> buckets;  ///< in plan order, since buckets were last planned
  bucket_metrics replaced;         ///< of the buckets of earlier plans
  int plans = 1;                   ///< how many there were

  std::chrono::nanoseconds busy() const { return total().busy; }
  std::chrono::nanoseconds exposed() const { return total().exposed; }
  double communication_seconds() const { return std::chrono::duration<double>(busy()).count(); }
  double exposed_seconds() const { return std::chrono::duration<double>(exposed()).count(); }

  void add(const step_times& step) {
    ++updates;
    buckets.resize(std::max(buckets.size(), step.buckets.size()));
    for (std::size_t b = 0; b < step.buckets.size(); ++b) {
      buckets[b].busy += step.buckets[b].busy;
      buckets[b].exposed += step.buckets[b].exposed;
    }
  }

  /// Buckets were planned anew: sums by bucket begin again, those over all buckets go on.
  void restart(std::size_t new_buckets) {
    replaced = total();
    buckets.assign(new_buckets, {});
    ++plans;
  }

  /// What came after `before`, an earlier reading of the same synchronizer. By bucket, since buckets were planned anew if that is later.
  metrics operator-(const metrics& before) const {
    metrics rest = *this;
    rest.updates -= before.updates;
    const bool same_plan = plans == before.plans;
    const bucket_metrics gone = same_plan ? before.replaced : before.total();
    rest.replaced.busy -= gone.busy;
    rest.replaced.exposed -= gone.exposed;
    for (std::size_t b = 0; same_plan && b < before.buckets.size(); ++b) {
      rest.buckets[b].busy -= before.buckets[b].busy;
      rest.buckets[b].exposed -= before.buckets[b].exposed;
    }
    return rest;
  }

 private:
  bucket_metrics total() const {
    bucket_metrics sum = replaced;
    for (const bucket_metrics& b : buckets) {
      sum.busy += b.busy;
      sum.exposed += b.exposed;
    }
    return sum;
  }
};

}  // namespace gradsync
