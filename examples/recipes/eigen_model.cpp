// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

// My model is made of Eigen matrices. Where do its gradients lie, and what is copied?
//
//     sudo apt-get install libeigen3-dev && bazel run //examples:eigen_model
//
// Matrices, vectors, arrays and maps of Eigen are parameters as they are, row-major or column-major; a gradient is stored as its value is.
// Three ways to keep them, of which none copies a gradient:
//   1. Matrices that own their memory, reduced in place. An empty gradient is fine until it is marked; then its shape must be its value's.
//   2. Maps whose gradients gradsync points into its buckets (layout::adopted). Give such a map its shape and a null pointer.
//   3. Maps into arenas of your own: the gradients of a bucket lie one after the other already.
// All three train the same perceptron to the same bits.

#include <Eigen/Dense>
#include <cmath>
#include <iostream>
#include <string>
#include <vector>

#include "gradsync/gradsync.hpp"

using matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using matrix_map = Eigen::Map<matrix>;
constexpr Eigen::Index inputs = 4, hidden = 16, outputs = 2, examples = 24;

struct owning {
  struct param {
    matrix value, grad;
    param(Eigen::Index rows, Eigen::Index columns) : value(rows, columns) {}
  };
  param weight1{hidden, inputs}, bias1{hidden, 1}, weight2{outputs, hidden}, bias2{outputs, 1};
};

// The next rows x columns floats of an arena; of no arena, nothing yet.
matrix_map next(float*& arena, Eigen::Index rows, Eigen::Index columns) {
  float* const here = arena;
  if (arena != nullptr) arena += rows * columns;
  return {here, rows, columns};
}

struct mapped {
  struct param {
    matrix_map value, grad;
    param(float*& values, float*& grads, Eigen::Index rows, Eigen::Index columns)
        : value(next(values, rows, columns)), grad(next(grads, rows, columns)) {}
  };
  param weight1, bias1, weight2, bias2;
  static constexpr auto parameters = gradsync::members<&mapped::weight1, &mapped::bias1, &mapped::weight2, &mapped::bias2>;

  mapped(float* values, float* grads)
      : weight1(values, grads, hidden, inputs), bias1(values, grads, hidden, 1), weight2(values, grads, outputs, hidden),
        bias2(values, grads, outputs, 1) {}
};
constexpr std::size_t all_floats = hidden * inputs + hidden + outputs * hidden + outputs;

// The mean squared error, and the gradients of it.
template <class Model>
void backward(Model& net, const matrix& x, const matrix& y) {
  const matrix active = ((net.weight1.value * x).colwise() + net.bias1.value.col(0)).array().tanh();
  const matrix wrong = ((net.weight2.value * active).colwise() + net.bias2.value.col(0) - y) * (2.0f / static_cast<float>(y.size()));
  net.weight2.grad = wrong * active.transpose();
  net.bias2.grad = wrong.rowwise().sum();
  const matrix below = (net.weight2.value.transpose() * wrong).array() * (1 - active.array().square());
  net.weight1.grad = below * x.transpose();
  net.bias1.grad = below.rowwise().sum();
}

template <class Model>
void train(const std::string& title, Model& net, gradsync::layout layout, gradsync::thread_communicator& comm) {
  float angle = 0;
  for (auto* value : {&net.weight1.value, &net.bias1.value, &net.weight2.value, &net.bias2.value})
    *value = value->unaryExpr([&](float) { return std::sin(angle += 1) / 2; });
  gradsync::synchronizer sync{net, comm, {.layout = layout}};
  gradsync::sgd optimizer{net, {.learning_rate = 0.1f, .momentum = 0.9f}};

  // The examples are the columns; each rank has its share of them.
  const Eigen::Index share = examples / comm.size();
  const matrix x = matrix::NullaryExpr(
      inputs, share, [&](Eigen::Index i, Eigen::Index j) { return std::sin(static_cast<float>(7 * i + 3 * (comm.rank() * share + j))); });
  const matrix y = x.topRows(outputs).array().square();
  for (int update = 0; update < 200; ++update) {
    sync.begin({.weight = share});
    backward(net, x, y);
    sync.mark_ready(net);
    sync.finish();
    optimizer.step();
  }
  if (comm.rank() == 0)
    std::cout << title << ":\n"
              << sync.describe_plan() << "bytes of buckets: " << sync.memory().buckets << ", weights "
              << gradsync::to_hex(gradsync::fingerprint(net)) << "\n\n";
}

int main() {
  gradsync::thread_group{2}.run([](auto& comm) {
    owning first;
    train("matrices", first, gradsync::layout::in_place, comm);

    std::vector<float> values(all_floats), more_values(all_floats), grads(all_floats);
    mapped second(values.data(), nullptr);
    train("maps into the buckets", second, gradsync::layout::adopted, comm);
    mapped third(more_values.data(), grads.data());
    train("maps into an arena", third, gradsync::layout::in_place, comm);

    const bool same =
        gradsync::fingerprint(first) == gradsync::fingerprint(second) && gradsync::fingerprint(first) == gradsync::fingerprint(third);
    if (comm.rank() == 0) std::cout << (same ? "the same bits\n" : "the bits differ\n");
  });
}
