// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// The tensors of a torch::nn::Module, as a model that gradsync can list, print, compare and keep in step.
///
/// What requires a gradient is trained: a parameter. What does not, and the buffers of the module (running statistics), are states: every
/// rank gets rank 0's at the start. A tensor under several names is one. Names are LibTorch's: `encoder.0.weight`.
///
///     auto net = std::make_shared<perceptron>();
///     std::cout << gradsync::describe(gradsync::torch_parameters{*net});
#pragma once

#include <torch/nn/module.h>

#include <cstddef>
#include <deque>  // hooks and marks hold addresses
#include <string>
#include <utility>
#include <vector>

#include "gradsync/core/dtype.hpp"
#include "gradsync/core/error.hpp"
#include "gradsync/model/parameter.hpp"
#include "gradsync/model/parameter_access.hpp"

namespace gradsync {

/// A tensor of a module, with its names there: a buffer, or a parameter. One object stands for it as long as a synchronizer looks at it.
class torch_tensor {
 public:
  /// `usage_error` unless it is contiguous, on the CPU, and its elements have a dtype.
  torch_tensor(const std::string& name, at::Tensor tensor) : names_{name}, tensor_(std::move(tensor)), type_(dtype_of_tensor()) {}

  const std::vector<std::string>& names() const { return names_; }
  const at::Tensor& tensor() const { return tensor_; }
  dtype type() const { return type_; }
  memory value() const { return elements_of(tensor_); }
  void add_name(const std::string& name) { names_.push_back(name); }

 protected:
  static memory elements_of(const at::Tensor& t) { return {static_cast<std::byte*>(t.data_ptr()), static_cast<std::size_t>(t.numel())}; }
  [[noreturn]] void refuse(const std::string& taken) const {
    throw usage_error("is a " + tensor_.toString() + "; gradsync takes " + taken, {.parameter = names_.front()});
  }

 private:
  dtype dtype_of_tensor() const {
    if (tensor_.layout() != at::kStrided || !tensor_.device().is_cpu()) refuse("dense tensors on the CPU");
    if (!tensor_.is_contiguous()) refuse("contiguous tensors, and this one is not");
    switch (tensor_.scalar_type()) {
      case at::kFloat: return dtype::float32;
      case at::kDouble: return dtype::float64;
      case at::kLong: return dtype::int64;
      case at::kInt: return dtype::int32;
      case at::kShort: return dtype::int16;
      case at::kChar: return dtype::int8;
      case at::kByte:
      case at::kBool: return dtype::uint8;
      default: refuse("float, double, bool, and integers of 8 to 64 bits");
    }
  }

  std::vector<std::string> names_;
  at::Tensor tensor_;
  dtype type_;
};

/// A tensor that is trained.
class torch_parameter : public torch_tensor {
 public:
  /// `usage_error` also unless its elements are float or double.
  torch_parameter(const std::string& name, const at::Tensor& tensor) : torch_tensor(name, tensor) {
    if (type() != dtype::float32 && type() != dtype::float64) refuse("gradients of float and double");
  }

  memory grad() const { return tensor().grad().defined() ? elements_of(tensor().grad()) : memory{}; }

  /// From now on the gradient lives at `grad`. Null: wherever LibTorch makes it, and nowhere until then.
  void point(std::byte* grad) {
    const at::Tensor before = std::exchange(tensor().mutable_grad(), {});
    home_ = grad != nullptr ? at::from_blob(grad, tensor().sizes(), tensor().options().requires_grad(false)) : at::Tensor();
    if (before.defined() && home_.defined()) tensor().mutable_grad() = home_.copy_(before);
    else clear();
  }

  /// Backward has made the gradient: brings it home. `usage_error` if it can't be averaged.
  void settle() {
    at::Tensor& grad = tensor().mutable_grad();
    if (!grad.defined()) return zero();  // a function of the user's gave none
    if (grad.layout() != at::kStrided) throw usage_error("its gradient is sparse; make the layer with sparse(false)");
    if (grad.requires_grad()) throw usage_error("its gradient is part of a graph; call backward() without create_graph");
    if (!grad.is_contiguous()) grad = grad.contiguous();
    if (home_.defined() && grad.data_ptr() != home_.data_ptr()) grad = home_.copy_(grad);
  }

  /// The gradient is none; zero where it has a home.
  void clear() { tensor().mutable_grad() = home_.defined() ? home_.zero_() : at::Tensor(); }

  /// The gradient is zero.
  void zero() { tensor().mutable_grad() = home_.defined() ? home_.zero_() : at::zeros_like(tensor()); }

 private:
  at::Tensor home_;
};

template <>
struct parameter_access<torch_tensor> {
  static parameter describe(torch_tensor& t) {
    parameter described{.type = t.type(), .count = t.value().count};
    described.value_access.read = [](void* object) { return static_cast<torch_tensor*>(object)->value(); };
    described.grad_access.read = [](void*) { return memory{}; };
    described.aliases.push_back({.name = {}, .parameter = &t, .value = &t, .grad = &t});
    return described;
  }
};

template <>
struct parameter_access<torch_parameter> {
  static parameter describe(torch_parameter& p) {
    parameter described{.type = p.type(), .count = p.value().count};
    described.value_access.read = [](void* object) { return static_cast<torch_parameter*>(object)->value(); };
    described.grad_access.read = [](void* object) { return static_cast<torch_parameter*>(object)->grad(); };
    described.grad_access.point = [](void* object, std::byte* grad, std::size_t) { static_cast<torch_parameter*>(object)->point(grad); };
    described.aliases.push_back({.name = {}, .parameter = &p, .value = &p, .grad = &p});
    return described;
  }
};

/// What a module trains, and what it keeps, as a model: `describe(torch_parameters{*net})`, `fingerprint(torch_parameters{*net})`.
class torch_parameters {
 public:
  /// `usage_error` if there is nothing to train, or something that is no torch_tensor.
  explicit torch_parameters(const torch::nn::Module& module) {
    for (const auto& named : module.named_parameters()) {
      if (named.value().requires_grad()) order_.push_back(add(trained_, named.key(), named.value()));
      else add(kept_, named.key(), named.value());
    }
    for (const auto& named : module.named_buffers())
      if (named.value().defined()) add(kept_, named.key(), named.value());
    if (order_.empty()) throw usage_error("the module has no parameter that requires a gradient");
  }
  torch_parameters(const torch_parameters&) = delete;
  torch_parameters& operator=(const torch_parameters&) = delete;

  /// One for each tensor.
  std::deque<torch_parameter>& trained() { return trained_; }

  friend void visit_parameters(torch_parameters& self, auto& visit) {
    for (const auto& [tensor, name] : self.order_) visit(self.trained_[tensor].names()[name], self.trained_[tensor]);
    for (torch_tensor& kept : self.kept_) visit.state(kept.names().front(), kept);
  }

 private:
  // Which tensor it is, and which of its names.
  template <class Tensor>
  static std::pair<std::size_t, std::size_t> add(std::deque<Tensor>& all, const std::string& name, const at::Tensor& tensor) {
    std::size_t i = 0;
    while (i < all.size() && !all[i].tensor().is_same(tensor)) ++i;
    if (i == all.size()) all.emplace_back(name, tensor);
    else all[i].add_name(name);
    return {i, all[i].names().size() - 1};
  }

  std::deque<torch_parameter> trained_;
  std::deque<torch_tensor> kept_;
  std::vector<std::pair<std::size_t, std::size_t>> order_;  // the module's: which tensor, which of its names
};

}  // namespace gradsync
