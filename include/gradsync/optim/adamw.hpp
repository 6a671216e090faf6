// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// Adam with decoupled weight decay, in the form that PyTorch gives it.
///
/// In step t, for each element, with g the gradient, w the value, m and v kept from step to step (0 at first):
///     w -= learning_rate · weight_decay · w;   m = beta1 · m + (1 - beta1) · g;   v = beta2 · v + (1 - beta2) · g²
///     w -= learning_rate / (1 - beta1^t) · m / (√v / √(1 - beta2^t) + epsilon)
/// Kingma, Ba: Adam, ICLR 2015; Loshchilov, Hutter: Decoupled Weight Decay Regularization, ICLR 2019.
///
/// Elements do not depend on each other and are computed in the parameter's own type, so replicas with equal values and gradients stay
/// equal, bit for bit, wherever their memory lies. Memory: twice the bytes of the values.
///
///     adamw opt{net, {.learning_rate = 1e-3, .weight_decay = 0.01}};
///     opt.step();                          // after sync.finish()
///     opt.options().learning_rate *= 0.5;  // from the next step on
#pragma once

#include <cmath>    // square roots
#include <cstddef>  // bytes
#include <utility>  // move

#include "gradsync/core/dtype.hpp"
#include "gradsync/core/series.hpp"
#include "gradsync/model/for_each_parameter.hpp"
#include "gradsync/optim/slots.hpp"

namespace gradsync {

struct adamw_options {
  double learning_rate = 1e-3;
  double beta1 = 0.9;    ///< in [0, 1)
  double beta2 = 0.999;  ///< in [0, 1)
  double epsilon = 1e-8;
  double weight_decay = 0.01;
};

/// Reads gradients and writes values in place; owns its two moments. The model may not move. One thread at a time.
class adamw {
 public:
  /// `usage_error`: a setting out of range, or what `parameters_of` refuses.
  template <class Model>
  explicit adamw(Model& model, adamw_options options = {}) : adamw(parameters_of(model), options) {}
  /// For gradients in a second object of the model's type.
  template <class Model>
  adamw(Model& model, Model& grads, adamw_options options = {}) : adamw(parameters_of(model, grads), options) {}
  adamw(series<parameter> parameters, adamw_options options)
      : parameters_(std::move(parameters)), options_(options), mean_(parameters_), square_(parameters_) {
    check();
  }

  /// One update of all values. `usage_error`, before anything is changed: a setting out of range, a gradient that is missing or of another
  /// length.
  void step() {
    check();
    detail::check_ready_to_step(parameters_);
    power1_ *= options_.beta1;
    power2_ *= options_.beta2;
    for (std::size_t i = 0; i < parameters_.size(); ++i)
      if (parameters_[i].type == dtype::float32) update<float>(i);
      else update<double>(i);
  }

  /// Settings of the steps to come; schedules change the learning rate here.
  adamw_options& options() { return options_; }
  const adamw_options& options() const { return options_; }

  /// Memory kept between steps, in bytes.
  std::size_t state_bytes() const { return mean_.bytes() + square_.bytes(); }

 private:
  void check() const {
    detail::check_not_negative("learning_rate", options_.learning_rate);
    detail::check_fraction("beta1", options_.beta1);
    detail::check_fraction("beta2", options_.beta2);
    detail::check_not_negative("epsilon", options_.epsilon);
    detail::check_not_negative("weight_decay", options_.weight_decay);
  }

  template <class T>
  void update(std::size_t i) {
    const memory value = parameters_[i].value();
    T* const w = reinterpret_cast<T*>(value.data);
    const T* const g = reinterpret_cast<const T*>(parameters_[i].grad().data);
    T* const m = mean_.of<T>(i);
    T* const v = square_.of<T>(i);
    const T beta1 = static_cast<T>(options_.beta1), rest1 = static_cast<T>(1 - options_.beta1);
    const T beta2 = static_cast<T>(options_.beta2), rest2 = static_cast<T>(1 - options_.beta2);
    const T keep = static_cast<T>(1 - options_.learning_rate * options_.weight_decay);
    const T rate = static_cast<T>(options_.learning_rate / (1 - power1_));
    const T root = static_cast<T>(std::sqrt(1 - power2_)), epsilon = static_cast<T>(options_.epsilon);
    for (std::size_t k = 0; k < value.count; ++k) {
      m[k] = beta1 * m[k] + rest1 * g[k];
      v[k] = beta2 * v[k] + rest2 * g[k] * g[k];
      w[k] = keep * w[k] - rate * (m[k] / (std::sqrt(v[k]) / root + epsilon));
    }
  }

  series<parameter> parameters_;
  adamw_options options_;
  detail::slots mean_, square_;
  double power1_ = 1, power2_ = 1;  // beta^t, by products: the same bits with every libm
};

}  // namespace gradsync
