// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// Stochastic gradient descent with momentum, in the form that PyTorch gives it.
///
/// For each element, with g the gradient, w the value, b the momentum kept from step to step (0 at first):
///     g += weight_decay · w;   b = momentum · b + g;   w -= learning_rate · b
/// and with `.nesterov`, w -= learning_rate · (g + momentum · b).
/// Sutskever, Martens, Dahl, Hinton: On the importance of initialization and momentum in deep learning, ICML 2013.
///
/// Elements do not depend on each other and are computed in the parameter's own type, so replicas with equal values and gradients stay
/// equal, bit for bit, wherever their memory lies. Memory: the bytes of the values once for momentum, nothing without it.
///
///     sgd opt{net, {.learning_rate = 0.05, .momentum = 0.9}};
///     opt.step();                          // after sync.finish()
///     opt.options().learning_rate *= 0.5;  // from the next step on
#pragma once

#include <cstddef>  // bytes
#include <utility>  // move

#include "gradsync/core/dtype.hpp"
#include "gradsync/core/series.hpp"
#include "gradsync/model/for_each_parameter.hpp"
#include "gradsync/optim/slots.hpp"

namespace gradsync {

struct sgd_options {
  double learning_rate = 0.01;
  double momentum = 0;  ///< in [0, 1)
  double weight_decay = 0;
  bool nesterov = false;
};

/// Reads gradients and writes values in place; owns its momentum. The model may not move. One thread at a time.
class sgd {
 public:
  /// `usage_error`: a setting out of range, or what `parameters_of` refuses.
  template <class Model>
  explicit sgd(Model& model, sgd_options options = {}) : sgd(parameters_of(model), options) {}
  /// For gradients in a second object of the model's type.
  template <class Model>
  sgd(Model& model, Model& grads, sgd_options options = {}) : sgd(parameters_of(model, grads), options) {}
  sgd(series<parameter> parameters, sgd_options options) : parameters_(std::move(parameters)), options_(options) { check(); }

  /// One update of all values. `usage_error`, before anything is changed: a setting out of range, a gradient that is missing or of another
  /// length.
  void step() {
    check();
    detail::check_ready_to_step(parameters_);
    if (options_.momentum > 0 && momentum_.empty()) momentum_ = detail::slots(parameters_);
    for (std::size_t i = 0; i < parameters_.size(); ++i)
      if (parameters_[i].type == dtype::float32) update<float>(i);
      else update<double>(i);
  }

  /// Settings of the steps to come; schedules change the learning rate here.
  sgd_options& options() { return options_; }
  const sgd_options& options() const { return options_; }

  /// Memory kept between steps, in bytes.
  std::size_t state_bytes() const { return momentum_.bytes(); }

 private:
  void check() const {
    detail::check_not_negative("learning_rate", options_.learning_rate);
    detail::check_fraction("momentum", options_.momentum);
    detail::check_not_negative("weight_decay", options_.weight_decay);
    if (options_.nesterov && options_.momentum == 0) throw usage_error("nesterov needs a momentum above 0");
  }

  template <class T>
  void update(std::size_t i) {
    const memory value = parameters_[i].value();
    T* const w = reinterpret_cast<T*>(value.data);
    const T* const grad = reinterpret_cast<const T*>(parameters_[i].grad().data);
    const T rate = static_cast<T>(options_.learning_rate), decay = static_cast<T>(options_.weight_decay);
    const T momentum = static_cast<T>(options_.momentum);
    if (momentum_.empty()) {
      for (std::size_t k = 0; k < value.count; ++k) w[k] -= rate * (grad[k] + decay * w[k]);
      return;
    }
    T* const b = momentum_.of<T>(i);
    const bool nesterov = options_.nesterov;
    for (std::size_t k = 0; k < value.count; ++k) {
      const T g = grad[k] + decay * w[k];
      b[k] = momentum * b[k] + g;
      w[k] -= rate * (nesterov ? g + momentum * b[k] : b[k]);
    }
  }

  series<parameter> parameters_;
  sgd_options options_;
  detail::slots momentum_;
};

}  // namespace gradsync
