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
#include <vector>

#include "gradsync/trace/recorder.hpp"

namespace gradsync {

struct bucket_metrics {
  std::chrono::nanoseconds busy{}, exposed{};
};

struct metrics {
  std::int64_t updates = 0;
  std::vector<bucket_metrics> buckets;  ///< in plan order

  std::chrono::nanoseconds busy() const {
    std::chrono::nanoseconds sum{};
    for (const bucket_metrics& b : buckets) sum += b.busy;
    return sum;
  }
  std::chrono::nanoseconds exposed() const {
    std::chrono::nanoseconds sum{};
    for (const bucket_metrics& b : buckets) sum += b.exposed;
    return sum;
  }
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

  /// What came after `before`, an earlier reading of the same synchronizer.
  metrics operator-(const metrics& before) const {
    metrics rest = *this;
    rest.updates -= before.updates;
    for (std::size_t b = 0; b < before.buckets.size(); ++b) {
      rest.buckets[b].busy -= before.buckets[b].busy;
      rest.buckets[b].exposed -= before.buckets[b].exposed;
    }
    return rest;
  }
};

}  // namespace gradsync
