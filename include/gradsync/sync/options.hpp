// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// What a synchronizer can be asked to do otherwise, and what it reports of its memory. All ranks give the same options.
#pragma once

#include <cstddef>
#include <string>
#include <utility>

#include "gradsync/bucket/plan.hpp"
#include "gradsync/collective/schedule.hpp"  // level
#include "gradsync/core/series.hpp"
#include "gradsync/trace/recorder.hpp"

namespace gradsync {

/// Who drives communication while backward computes. Ranks may differ in it.
enum class progress : unsigned char {
  automatic,  ///< `thread` if ranks and communication threads all find a CPU, else `at_marks`
  thread,     ///< a thread a rank: buckets are summed while the rank computes, or sleeps, or waits
  at_marks,   ///< the calling thread, at each mark and in finish(); a mark never waits for a peer
};

/// How gradients of several micro-steps come together on a rank.
enum class accumulation_mode : unsigned char {
  tree,   ///< the user overwrites each gradient; the library adds, in the canonical tree (up to log2(n) + 1 copies)
  plain,  ///< the user's backward pass adds to the gradient and zeroes it after the update; the library reads it at the last mark
};

constexpr const char* name_of(accumulation_mode mode) { return mode == accumulation_mode::plain ? "plain" : "tree"; }

/// Whether buckets are planned anew, after the first update, from the order in which rank 0's gradients became ready in it. No slot moves;
/// sums by bucket in the metrics begin again.
enum class replan : unsigned char {
  automatic,  ///< once, but never with a strategy whose bits depend on the plan (`ring`), since another order of marks would change them
  once,       ///< in any case
  never,
};

constexpr const char* name_of(replan r) { return r == replan::automatic ? "automatic" : r == replan::once ? "once" : "never"; }

struct synchronizer_options {
  std::size_t bucket_bytes = 25 << 20;       ///< cap of a bucket; 0: one for each parameter
  std::size_t first_bucket_bytes = 1 << 20;  ///< cap of the first bucket, where that is less
  gradsync::layout layout = layout::automatic;
  gradsync::progress progress = progress::automatic;
  accumulation_mode accumulation = accumulation_mode::tree;
  gradsync::replan replan = replan::automatic;
  gradsync::recorder* recorder = nullptr;  ///< not owned; gets the times of each update
};

/// With the layout that automatic means.
inline synchronizer_options decided(synchronizer_options options, layout automatic) {
  if (options.layout == layout::automatic) options.layout = automatic;
  return options;
}

/// Whether buckets are planned anew, with sums of such bits.
inline bool replans(const synchronizer_options& options, level bits) {
  return options.replan == replan::once || (options.replan == replan::automatic && bits >= level::uniform);
}

inline plan_options caps_of(const synchronizer_options& options) {
  return {.bucket_bytes = options.bucket_bytes, .first_bucket_bytes = options.first_bucket_bytes};
}

/// The options that have to be the same on all ranks, as names and values in words.
inline series<std::pair<std::string, std::string>> shared_options(const synchronizer_options& options) {
  return {{"bucket_bytes", std::to_string(options.bucket_bytes)},
          {"first_bucket_bytes", std::to_string(options.first_bucket_bytes)},
          {"layout", name_of(options.layout)},
          {"accumulation", name_of(options.accumulation)},
          {"replan", name_of(options.replan)}};
}

/// What a replica costs, in bytes. Optimizers report their own state.
struct memory_report {
  std::size_t values = 0, gradients = 0;  ///< the user's
  std::size_t states = 0;                 ///< the user's: running statistics, frozen layers
  std::size_t buckets = 0;                ///< storage that gradients are copied into, or adopted by
  std::size_t partial_sums = 0;           ///< of accumulation; grows to its full size during the first update
  std::size_t scratch = 0;                ///< of strategies that need some; so does this
};

}  // namespace gradsync
