// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// The model that training steps are timed with: a perceptron of any widths, of the layers of examples/fashion, whose backward pass says
/// when a layer's gradients are final. Eigen computes on the calling thread.
///
///     bench::perceptron net = bench::make_perceptron(784, {512, 512}, seed);
///     bench::passes memory;
///     float loss = memory.run(net, inputs, labels, bench::gradients::overwritten, [&](auto& layer) { sync.mark_ready(layer); });
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "examples/fashion/mlp.hpp"

namespace bench {

using matrix = fashion::matrix<float>;

struct perceptron {
  std::vector<fashion::layer<float>> layers;
};

/// From so many inputs over layers of `hidden` outputs to the classes.
inline perceptron make_perceptron(std::size_t inputs, const std::vector<std::size_t>& hidden, std::uint64_t seed) {
  fashion::random_source random{seed};
  perceptron net;
  for (std::size_t l = 0; l <= hidden.size(); ++l) {
    const std::size_t outputs = l < hidden.size() ? hidden[l] : fashion::classes;
    fashion::initialise(net.layers.emplace_back(), inputs, outputs, random);
    inputs = outputs;
  }
  return net;
}

/// What becomes of the gradients of an earlier pass.
enum class gradients { overwritten, added_to };

/// Forward and backward passes, and what they need besides the model: kept from one to the next, so that no pass allocates.
class passes {
 public:
  /// The loss, summed over the batch (a column an example, each of a class; at least one). Gradients are those of its mean.
  template <class LayerDone>
  float run(perceptron& net, const matrix& inputs, std::span<const std::uint8_t> classes, gradients what, LayerDone&& layer_done) {
    const float sum = loss(net, inputs, classes);
    matrix* out_grad = &logits_.third;
    for (std::size_t l = net.layers.size(); l-- > 0;) {
      fashion::layer<float>& layer = net.layers[l];
      const matrix& in = l == 0 ? inputs : outputs_[l - 1];
      if (what == gradients::overwritten) {
        layer.weight.grad.noalias() = *out_grad * in.transpose();
        layer.bias.grad = out_grad->rowwise().sum();
      } else {
        layer.weight.grad.noalias() += *out_grad * in.transpose();
        layer.bias.grad += out_grad->rowwise().sum();
      }
      layer_done(layer);
      if (l == 0) break;
      through_.noalias() = layer.weight.value.transpose() * *out_grad;
      outputs_[l - 1] = (outputs_[l - 1].array() > 0).select(through_, 0);  // an output makes room for its gradient
      out_grad = &outputs_[l - 1];
    }
    return sum;
  }

  /// Of the forward pass alone.
  float loss(const perceptron& net, const matrix& inputs, std::span<const std::uint8_t> classes) {
    outputs_.resize(net.layers.size() - 1);
    for (std::size_t l = 0; l < net.layers.size(); ++l) {
      matrix& out = l < outputs_.size() ? outputs_[l] : logits_.third;
      out.noalias() = net.layers[l].weight.value * (l == 0 ? inputs : outputs_[l - 1]);
      out.colwise() += net.layers[l].bias.value;
      if (l < outputs_.size()) out = out.cwiseMax(0.0f);
    }
    return fashion::softmax_cross_entropy<float>(classes, logits_);
  }

 private:
  std::vector<matrix> outputs_;  // of the hidden layers
  fashion::activations<float> logits_;
  matrix through_;
};

}  // namespace bench
