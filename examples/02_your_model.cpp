// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

// My model is not a plain struct. How does gradsync find its parameters?
//
//     bazel run //examples:02_your_model
//
// A parameter is a `value` and a `grad` of contiguous floats or doubles. They are looked for in members, containers and nested structs;
// where gradsync cannot look, you say where. All ways: include/gradsync/model/parameter_access.hpp.

#include <iostream>
#include <memory>
#include <span>
#include <vector>

#include "gradsync/gradsync.hpp"

// 1. Plain structs: nothing to write. Integers, single floats and strings in them are passed over.
struct param {
  std::vector<float> value, grad;
  explicit param(std::size_t n) : value(n), grad(n) {}
};
struct linear {
  param weight{8}, bias{2};
  int inputs = 4;
};

// 2. A class with private members lists those that hold parameters, after their declarations.
class embedding {
  param table_{100};

 public:
  static constexpr auto parameters = gradsync::members<&embedding::table_>;
};

// 3. A friend chooses the names, and reaches behind pointers.
class head {
  std::unique_ptr<linear> out_ = std::make_unique<linear>();
  friend void visit_parameters(head& self, auto& visit) { visit("out", *self.out_); }
};

// 4. A type of somebody else gets a trait.
struct their_tensor {
  double numbers[6] = {};  // three values, then their gradient
};
template <>
struct gradsync::parameter_access<their_tensor> {
  static std::span<double> value(their_tensor& t) { return {t.numbers, 3}; }
  static std::span<double> grad(their_tensor& t) { return {t.numbers + 3, 3}; }
};

struct model {
  embedding words;
  std::vector<linear> layers = std::vector<linear>(2);
  head top;
  their_tensor scale;
  gradsync::skip<std::vector<float>> cache;  // floats that are no parameter
};

// 5. Values and gradients as two objects of one type: each container of floats is a parameter, its twin the gradient.
using bare = std::vector<std::vector<float>>;

int main() {
  std::cout << gradsync::describe(model{});
  gradsync::thread_group{2}.run([](auto& comm) {
    model net;
    bare values{{1, 2, 3}, {4}}, grads{{0, 0, 6.0f * static_cast<float>(comm.rank())}, {0}};
    gradsync::synchronizer first{net, comm};
    gradsync::synchronizer second{values, grads, comm};
    net.scale.numbers[3] = comm.rank();  // 0 and 1
    first.mark_ready(net.top);           // a mark takes a layer, a parameter, a value or a gradient
    first.mark_all_ready();              // or all that is left
    first.finish();
    second.mark_all_ready();
    second.finish();
    if (comm.rank() == 0) std::cout << "means over both ranks: " << net.scale.numbers[3] << " and " << grads[0][2] << '\n';
  });
}

// Next: 03_buckets shows which gradients travel together.
