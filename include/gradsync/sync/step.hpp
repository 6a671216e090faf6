// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// What a rank says of one micro-step, and what it is told of an update.
///
/// An update is one or more micro-steps, each `begin`, marks, `finish`; the last one sends. With contributions (gradient, weight) of all
/// ranks and micro-steps, each a mean or a sum over its examples, the result is (Σ sums) / (Σ weights): the mean over all examples, also
/// when batches are uneven.
///
///     sync.begin({.weight = batch.size()});                                       // a mean over the batch, one micro-step
///     sync.begin({.weight = tokens, .gradient = gradient_kind::sum, .micro_step = micro_step::more});
#pragma once

#include <cstdint>
#include <string>
#include <type_traits>

#include "gradsync/core/error.hpp"

namespace gradsync {

/// How much a contribution counts: usually its number of examples. Any arithmetic type converts, so that `{.weight = batch.size()}` needs
/// no cast.
class weight {
 public:
  template <class T>
  requires std::is_arithmetic_v<T>
  constexpr weight(T value) : value_(static_cast<double>(value)) {}
  constexpr double value() const { return value_; }

 private:
  double value_;
};

/// What the gradient is, over the examples of its micro-step.
enum class gradient_kind : unsigned char { mean, sum };

/// Whether other micro-steps of the same update follow.
enum class micro_step : unsigned char { more, last };

/// One micro-step of one rank. Weight 0: the gradient is not read, and counts for nothing.
struct step_options {
  gradsync::weight weight = 1;
  gradient_kind gradient = gradient_kind::mean;
  gradsync::micro_step micro_step = gradsync::micro_step::last;
};

/// What an update came to. Until then, after a `more` micro-step, `updated` is false.
struct step_result {
  bool updated = false;  ///< the gradients hold the mean; after a `more` micro-step they do not
  double weight = 0;  ///< Σ weights over all ranks and micro-steps; 0: nobody contributed, and the gradients are +0. NaN where the device
                      ///< does not know it yet: ask `total_weight()`
  std::int64_t step = 0;  ///< updates before this one
};

/// `usage_error` unless the weight is 0 or so that the product with a gradient neither vanishes nor overflows for its sake.
inline void check(const step_options& options) {
  const double w = options.weight.value();
  if (w == 0 || (w >= 1e-18 && w <= 1e18)) return;
  throw usage_error("the weight of a micro-step is " + std::to_string(w) + "; give the number of its examples: 0, or from 1e-18 to 1e18");
}

/// The factor that makes a micro-step's gradient a sum over its examples; 0 means that it is not read.
constexpr double leaf_scale(const step_options& options) {
  return options.weight.value() == 0 || options.gradient == gradient_kind::mean ? options.weight.value() : 1;
}

}  // namespace gradsync
