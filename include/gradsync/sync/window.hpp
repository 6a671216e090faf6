// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// The micro-steps of one update on one rank: which one is under way, what those before it have left, and what all come to.
///
/// The one place that knows the two modes of accumulation. `tree` keeps partial sums of the library's own (sync/accumulation.hpp), so a
/// gradient is taken in each micro-step; `plain` lets the user's buffer add up (sync/plain_window.hpp) and reads it in the last one.
///
///     window all(accumulation_mode::tree, parameters);
///     all.begin({.weight = 32, .micro_step = micro_step::more});  all.take(stream, i, p.grad());  all.end();
///     all.begin({.weight = 32});  all.close(stream, home, i, p.grad(), all.scale());  all.reset();
#pragma once

#include <cstddef>

#include "gradsync/core/series.hpp"
#include "gradsync/core/stream.hpp"
#include "gradsync/model/parameter.hpp"
#include "gradsync/sync/accumulation.hpp"
#include "gradsync/sync/options.hpp"
#include "gradsync/sync/plain_window.hpp"
#include "gradsync/sync/step.hpp"

namespace gradsync {

class window {
 public:
  window(accumulation_mode mode, series_view<parameter> parameters) : plain_mode_(mode == accumulation_mode::plain), sums_(parameters) {}

  /// The micro-step that is under way from now on. `allocate(bytes)` gives memory for partial sums. `usage_error`, and nothing changed, if
  /// it does not go with those before it.
  template <class Allocate>
  void begin(const step_options& step, Allocate&& allocate) {
    check(step);
    if (plain_mode_) plain_.check(step);
    else if (step.micro_step == micro_step::more) sums_.reserve(allocate);
    step_ = step;
  }
  const step_options& step() const { return step_; }
  bool last() const { return step_.micro_step == micro_step::last; }

  /// Whether it is the first of its update.
  bool first() const { return plain_mode_ ? plain_.empty() : sums_.micro_steps() == 0; }
  /// Whether it is all there is, and a mean: of one rank alone, its gradient is the result.
  bool is_one_mean() const { return first() && last() && step_.gradient == gradient_kind::mean && step_.weight.value() != 0; }
  /// Whether earlier ones have left partial sums that the last gradient has to be folded with.
  bool has_partial_sums() const { return sums_.micro_steps() > 0; }
  /// The factor that makes its gradient a sum over its examples; 0 means that the gradient is not read.
  double scale() const { return plain_mode_ ? plain_.scale(step_) : leaf_scale(step_); }
  /// The weight of the whole update on this rank, if it is the last.
  double weight() const { return plain_mode_ ? plain_.total(step_) : sums_.total(step_.weight.value()); }

  /// Whether the library looks at gradients in this micro-step.
  bool reads() const { return last() || !plain_mode_; }

  /// A parameter's gradient of a micro-step that is read and is not the last.
  template <stream S>
  void take(S& s, std::size_t parameter, memory grad) {
    sums_.take(s, parameter, grad, scale());
  }
  /// The gradient of the last one, times `factor` and with all that was kept, to where its bucket has it: `home` may be the gradient.
  template <stream S>
  void close(S& s, memory home, std::size_t parameter, memory grad, double factor) {
    sums_.close(s, home, parameter, grad, factor);
  }

  /// Counts a micro-step that is not the last.
  void end() { plain_mode_ ? plain_.count(step_) : sums_.count(step_.weight.value()); }

  /// A new update.
  void reset() {
    sums_.reset();
    plain_ = {};
  }

  /// Bytes of the library's own that hold partial sums.
  std::size_t bytes() const { return sums_.bytes(); }

 private:
  bool plain_mode_;
  accumulation sums_;
  plain_window plain_;
  step_options step_;
};

}  // namespace gradsync
