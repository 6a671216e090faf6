// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// The model: a multi-layer perceptron, pixels-128-64-10 with ReLU, and its backward pass written by hand.
///
/// Plain structs of Eigen matrices that know nothing of gradsync. All that data-parallel training asks of the backward pass is to say when
/// a layer's gradients are final, and it does so by calling `layer_done(layer)`, last layer first.
///
/// The gradient is the mean over the batch, and its bits depend on the batch and the weights alone: Eigen's matrices are aligned alike at
/// every allocation, and its products run on the calling thread. The scalar type is a parameter so that a test can compare with finite
/// differences in double.
///
///     mlp<float> net;  initialise(net, 784, seed);  activations<float> memory;
///     forward(net, inputs, memory);
///     float loss = softmax_cross_entropy(labels, memory);                  // summed over the batch
///     backward(net, inputs, memory, [&](auto& layer) { ... });
#pragma once

#include <Eigen/Core>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>

#include "examples/fashion/idx.hpp"  // the number of classes

namespace fashion {

template <class Scalar>
using matrix = Eigen::Matrix<Scalar, Eigen::Dynamic, Eigen::Dynamic>;
template <class Scalar>
using vector = Eigen::Matrix<Scalar, Eigen::Dynamic, 1>;

template <class Tensor>
struct parameter {
  Tensor value, grad;
};

template <class Scalar>
struct layer {
  parameter<matrix<Scalar>> weight;  ///< outputs x inputs
  parameter<vector<Scalar>> bias;
};

template <class Scalar>
struct mlp {
  layer<Scalar> first, second, third;
};

/// What the forward pass leaves for the backward pass, one column an example.
template <class Scalar>
struct activations {
  matrix<Scalar> first, second, third;  ///< the outputs of the layers; later the gradients with respect to them
};

/// SplitMix64 (Steele, Lea, Flood 2014): the same numbers with every standard library, which std's distributions don't promise.
class random_source {
 public:
  explicit random_source(std::uint64_t seed) : state_(seed) {}

  /// In [0, 1), a multiple of 2^-53.
  double next() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return static_cast<double>((z ^ (z >> 31)) >> 11) * 0x1p-53;
  }

 private:
  std::uint64_t state_;
};

/// He, Zhang, Ren, Sun 2015: weights of variance 2/inputs keep the scale of the activations through ReLU. Uniform, since that needs no
/// function but sqrt, whose bits are the same everywhere.
template <class Scalar>
void initialise(layer<Scalar>& l, std::size_t inputs, std::size_t outputs, random_source& random) {
  const auto rows = static_cast<Eigen::Index>(outputs), columns = static_cast<Eigen::Index>(inputs);
  const double limit = std::sqrt(6.0 / static_cast<double>(inputs));
  l.weight.value.resize(rows, columns);
  for (Scalar& weight : l.weight.value.reshaped()) weight = static_cast<Scalar>((2 * random.next() - 1) * limit);
  l.weight.grad.setZero(rows, columns);
  l.bias.value.setZero(rows);
  l.bias.grad.setZero(rows);
}

template <class Scalar>
void initialise(mlp<Scalar>& net, std::size_t inputs, std::uint64_t seed) {
  random_source random{seed};
  initialise(net.first, inputs, 128, random);
  initialise(net.second, 128, 64, random);
  initialise(net.third, 64, classes, random);
}

/// Leaves the logits in `memory.third`.
template <class Scalar>
void forward(const mlp<Scalar>& net, const matrix<Scalar>& inputs, activations<Scalar>& memory) {
  const auto affine = [](const layer<Scalar>& l, const matrix<Scalar>& in, matrix<Scalar>& out) {
    out.noalias() = l.weight.value * in;
    out.colwise() += l.bias.value;
  };
  affine(net.first, inputs, memory.first);
  memory.first = memory.first.cwiseMax(Scalar{0});
  affine(net.second, memory.first, memory.second);
  memory.second = memory.second.cwiseMax(Scalar{0});
  affine(net.third, memory.second, memory.third);
}

/// The sum of the losses of a batch (at least one example). `memory.third` holds the logits before, and after the gradient of the mean loss
/// with respect to them: (probability - [is the label]) / examples.
template <class Scalar>
Scalar softmax_cross_entropy(std::span<const std::uint8_t> labels, activations<Scalar>& memory) {
  Scalar loss{0};
  for (std::size_t example = 0; example < labels.size(); ++example) {
    auto logits = memory.third.col(static_cast<Eigen::Index>(example));
    const auto label = static_cast<Eigen::Index>(labels[example]);
    logits.array() -= logits.maxCoeff();  // exp can't overflow then
    const Scalar shifted = logits(label);
    logits = logits.array().exp();
    const Scalar sum = logits.sum();
    loss += std::log(sum) - shifted;
    logits /= sum;
    logits(label) -= Scalar{1};
  }
  memory.third /= static_cast<Scalar>(labels.size());
  return loss;
}

/// Overwrites every gradient of the model with the mean over the batch, and calls `layer_done(layer)` as soon as a layer's gradients are
/// final: they may travel while those of the layers below are still computed.
template <class Scalar, class LayerDone>
void backward(mlp<Scalar>& net, const matrix<Scalar>& inputs, activations<Scalar>& memory, LayerDone&& layer_done) {
  const auto finish_layer = [&](layer<Scalar>& l, const matrix<Scalar>& in, const matrix<Scalar>& out_grad) {
    l.weight.grad.noalias() = out_grad * in.transpose();
    l.bias.grad = out_grad.rowwise().sum();
  };
  // ReLU lets the gradient through where its output is positive; `out` holds that output until it makes room for its gradient.
  const auto through = [](const layer<Scalar>& l, const matrix<Scalar>& out_grad, matrix<Scalar>& out) {
    const matrix<Scalar> in_grad = l.weight.value.transpose() * out_grad;
    out = (out.array() > Scalar{0}).select(in_grad, Scalar{0});
  };
  finish_layer(net.third, memory.second, memory.third);
  layer_done(net.third);
  through(net.third, memory.third, memory.second);
  finish_layer(net.second, memory.first, memory.second);
  layer_done(net.second);
  through(net.second, memory.second, memory.first);
  finish_layer(net.first, inputs, memory.first);
  layer_done(net.first);
}

/// How many labels got the largest logit. A tie goes to the smaller class, and a model whose numbers are no longer finite scores nothing.
template <class Scalar>
std::size_t count_correct(std::span<const std::uint8_t> labels, const activations<Scalar>& memory) {
  std::size_t correct = 0;
  for (std::size_t example = 0; example < labels.size(); ++example) {
    const auto logits = memory.third.col(static_cast<Eigen::Index>(example));
    Eigen::Index best = 0;
    if (!logits.allFinite()) continue;
    logits.maxCoeff(&best);
    if (best == static_cast<Eigen::Index>(labels[example])) ++correct;
  }
  return correct;
}

}  // namespace fashion
