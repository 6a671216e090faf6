// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

#include "examples/fashion/mlp.hpp"

#include <doctest/doctest.h>

#include <array>
#include <cstring>
#include <vector>

namespace {

using namespace fashion;

constexpr std::size_t inputs_of_net = 12;

template <class Scalar>
struct problem {
  mlp<Scalar> net;
  matrix<Scalar> inputs;
  std::vector<std::uint8_t> labels;

  explicit problem(std::size_t examples, std::uint64_t seed = 5) {
    initialise(net, inputs_of_net, seed);
    random_source random{seed + 1};
    inputs.resize(static_cast<Eigen::Index>(inputs_of_net), static_cast<Eigen::Index>(examples));
    for (Scalar& x : inputs.reshaped()) x = static_cast<Scalar>(4 * random.next() - 2);
    for (layer<Scalar>* l : {&net.first, &net.second, &net.third})  // a bias of 0 would hide a forgotten one
      for (Scalar& b : l->bias.value) b = static_cast<Scalar>(random.next() - 0.5);
    for (std::size_t i = 0; i < examples; ++i) labels.push_back(static_cast<std::uint8_t>(random.next() * static_cast<double>(classes)));
  }

  Scalar mean_loss() const {
    activations<Scalar> memory;
    forward(net, inputs, memory);
    return softmax_cross_entropy<Scalar>(labels, memory) / static_cast<Scalar>(labels.size());
  }

  template <class LayerDone>
  void compute_gradients(LayerDone&& layer_done) {
    activations<Scalar> memory;
    forward(net, inputs, memory);
    softmax_cross_entropy<Scalar>(labels, memory);
    backward(net, inputs, memory, layer_done);
  }
};

template <class Tensor>
std::vector<unsigned char> bits(const Tensor& tensor) {
  std::vector<unsigned char> copy(static_cast<std::size_t>(tensor.size()) * sizeof(*tensor.data()));
  std::memcpy(copy.data(), tensor.data(), copy.size());
  return copy;
}

template <class Scalar>
std::vector<unsigned char> gradient_bits(const mlp<Scalar>& net) {
  std::vector<unsigned char> all;
  for (const layer<Scalar>* l : {&net.first, &net.second, &net.third})
    for (const auto& part : {bits(l->weight.grad), bits(l->bias.grad)}) all.insert(all.end(), part.begin(), part.end());
  return all;
}

}  // namespace

TEST_CASE("every kind of gradient agrees with finite differences") {
  problem<double> p{7};
  p.compute_gradients([](auto&) {});
  const auto agree = [&](auto& value, const auto& grad) {
    const Eigen::Index step = value.size() / 40 + 1;  // 40 elements of each tensor, spread over it
    double largest = 0;
    for (Eigen::Index i = 0; i < value.size(); i += step) {
      double& x = value.data()[i];
      const double kept = x, h = 1e-5;
      x = kept + h;
      const double above = p.mean_loss();
      x = kept - h;
      const double below = p.mean_loss();
      x = kept;
      const double difference = (above - below) / (2 * h);
      CHECK(grad.data()[i] == doctest::Approx(difference).epsilon(1e-6).scale(0.1));
      largest = std::max(largest, std::abs(difference));
    }
    CHECK(largest > 1e-3);  // zeros would agree with zeros
  };
  for (layer<double>* l : {&p.net.first, &p.net.second, &p.net.third}) {
    agree(l->weight.value, l->weight.grad);
    agree(l->bias.value, l->bias.grad);
  }
}

TEST_CASE("the layers are done from the last to the first, each with its final gradients") {
  problem<float> p{5};
  std::vector<const void*> done;
  std::vector<std::vector<unsigned char>> at_that_moment;
  p.compute_gradients([&](const layer<float>& l) {
    done.push_back(&l);
    at_that_moment.push_back(bits(l.weight.grad));
    at_that_moment.push_back(bits(l.bias.grad));
  });
  CHECK(done == std::vector<const void*>{&p.net.third, &p.net.second, &p.net.first});
  const std::vector<std::vector<unsigned char>> at_the_end{bits(p.net.third.weight.grad),  bits(p.net.third.bias.grad),
                                                           bits(p.net.second.weight.grad), bits(p.net.second.bias.grad),
                                                           bits(p.net.first.weight.grad),  bits(p.net.first.bias.grad)};
  CHECK(at_that_moment == at_the_end);
}

TEST_CASE("the gradient is the mean over the batch") {
  problem<double> whole{6};
  whole.compute_gradients([](auto&) {});
  matrix<double> sum = matrix<double>::Zero(128, static_cast<Eigen::Index>(inputs_of_net));
  for (Eigen::Index i = 0; i < 6; ++i) {
    problem<double> one{6};
    one.inputs = whole.inputs.col(i).eval();
    one.labels = {whole.labels[static_cast<std::size_t>(i)]};
    one.compute_gradients([](auto&) {});
    sum += one.net.first.weight.grad;
  }
  CHECK(sum.isApprox(6 * whole.net.first.weight.grad, 1e-12));
  CHECK(sum.norm() > 1e-3);
}

TEST_CASE("the same batch gives the same bits wherever its memory lies") {
  for (const std::size_t examples : {1u, 2u, 3u, 5u, 31u, 32u, 33u}) {
    CAPTURE(examples);
    problem<float> first{examples};
    first.compute_gradients([](auto&) {});
    std::vector<std::vector<char>> in_the_way;  // moves later allocations to other addresses
    for (std::size_t i = 1; i < 40; ++i) {
      in_the_way.emplace_back(16 * i + 8);
      problem<float> again{examples};
      again.compute_gradients([](auto&) {});
      REQUIRE(gradient_bits(again.net) == gradient_bits(first.net));
      REQUIRE(again.mean_loss() == first.mean_loss());
    }
  }
}

TEST_CASE("the bits of a gradient don't depend on what was computed before") {
  problem<float> fresh{8}, used{8};
  fresh.compute_gradients([](auto&) {});
  activations<float> memory;
  const problem<float> other{33, 9};
  forward(used.net, other.inputs, memory);
  softmax_cross_entropy<float>(other.labels, memory);
  backward(used.net, other.inputs, memory, [](auto&) {});
  CHECK(gradient_bits(used.net) != gradient_bits(fresh.net));
  forward(used.net, used.inputs, memory);
  softmax_cross_entropy<float>(used.labels, memory);
  backward(used.net, used.inputs, memory, [](auto&) {});
  CHECK(gradient_bits(used.net) == gradient_bits(fresh.net));
}

TEST_CASE("first weights follow the seed, and keep to He's limit") {
  mlp<float> a, b, c;
  initialise(a, 784, 1);
  initialise(b, 784, 1);
  initialise(c, 784, 2);
  CHECK(bits(a.first.weight.value) == bits(b.first.weight.value));
  CHECK(bits(a.first.weight.value) != bits(c.first.weight.value));
  CHECK(bits(a.first.weight.value) != bits(a.second.weight.value));
  const double variance = a.first.weight.value.cast<double>().squaredNorm() / static_cast<double>(a.first.weight.value.size());
  CHECK(variance == doctest::Approx(2.0 / 784).epsilon(0.02));
  CHECK(a.first.weight.value.maxCoeff() <= std::sqrt(6.0f / 784));
  CHECK(a.first.weight.value.minCoeff() >= -std::sqrt(6.0f / 784));
  CHECK(a.first.bias.value.isZero(0));
  CHECK(a.third.weight.value.rows() == 10);
  CHECK(a.third.weight.value.cols() == 64);
  CHECK(a.first.weight.grad.isZero(0));
}

TEST_CASE("the random source gives the published numbers of SplitMix64") {
  random_source random{1234567};
  const std::array<std::uint64_t, 3> published{6457827717110365317u, 3203168211198807973u, 9817491932198370423u};
  for (const std::uint64_t number : published) CHECK(random.next() == static_cast<double>(number >> 11) * 0x1p-53);
}

TEST_CASE("the loss of large logits is finite, and that of equal ones is log 10") {
  activations<float> memory;
  memory.third = matrix<float>::Zero(10, 2);
  CHECK(softmax_cross_entropy<float>(std::array<std::uint8_t, 2>{3, 4}, memory) == doctest::Approx(2 * std::log(10.0)));
  memory.third = matrix<float>::Zero(10, 1);
  memory.third(2, 0) = 1e4f;
  CHECK(softmax_cross_entropy<float>(std::array<std::uint8_t, 1>{3}, memory) == doctest::Approx(1e4));
  CHECK(memory.third.allFinite());
}

TEST_CASE("correct answers are counted, and numbers that are not finite are none") {
  activations<float> memory;
  memory.third = matrix<float>::Zero(10, 4);
  memory.third(3, 0) = 1;
  memory.third(4, 1) = 1;
  memory.third(5, 2) = std::nanf("");
  const std::array<std::uint8_t, 4> labels{3, 5, 5, 0};
  CHECK(count_correct<float>(labels, memory) == 2);
}
