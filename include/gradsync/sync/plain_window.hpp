// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// Plain accumulation: the user's backward passes have added up already when the library reads, at the last mark. So the micro-steps must
/// be alike: all sums, or all means of one weight. Those of weight 0 have added nothing. The buffer is unread only if all weights are 0.
#pragma once

#include <string>

#include "gradsync/core/error.hpp"
#include "gradsync/sync/step.hpp"

namespace gradsync {

class plain_window {
 public:
  /// `usage_error` if the buffer can't hold this micro-step besides the earlier ones.
  void check(const step_options& next) const {
    const double w = next.weight.value();
    if (w == 0 || !read_) return;
    if (next.gradient != gradient_) throw usage_error("plain accumulation takes means or sums in one update, not both");
    if (next.gradient == gradient_kind::mean && w != weight_)
      throw usage_error("plain accumulation of means needs the same weight in each micro-step, not " + std::to_string(weight_) +
                        " and then " + std::to_string(w) + "; hand in sums, or use accumulation_mode::tree");
  }

  void count(const step_options& step) {
    if (const double w = step.weight.value(); w != 0) {
      weight_ = w;
      gradient_ = step.gradient;
      total_ += w;
      read_ = true;
    }
    ++steps_;
  }

  bool empty() const { return steps_ == 0; }

  /// For the whole buffer, if `last` is the last micro-step.
  double scale(const step_options& last) const {
    if (last.weight.value() != 0 || !read_) return leaf_scale(last);
    return gradient_ == gradient_kind::mean ? weight_ : 1;
  }
  double total(const step_options& last) const { return total_ + last.weight.value(); }

 private:
  double weight_ = 0;  // of each micro-step that has one
  double total_ = 0;
  gradient_kind gradient_ = gradient_kind::mean;
  bool read_ = false;
  long long steps_ = 0;
};

}  // namespace gradsync
