// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

// My model is polymorphic, raw memory as in llm.c, or has running statistics: how does it get in?
//
//     bazel run //examples:10_doors
//
// 02_your_model shows how gradsync finds parameters in structs and classes. Here are the doors for the rest. Smart pointers, optionals,
// variants, tuples and maps need none: gradsync looks into them.

#include <array>
#include <iostream>
#include <memory>
#include <vector>

#include "gradsync/gradsync.hpp"

struct param {
  std::vector<float> value, grad;
  explicit param(std::size_t n = 1) : value(n), grad(n) {}
};

// 1. Layers behind pointers to their base show their members in a virtual function, and say whose members these are: a class derived
//    further that adds some, and forgets to show them, is an error.
struct layer {
  virtual ~layer() = default;
  virtual void visit_parameters(gradsync::parameter_visitor& visit) = 0;
};
struct linear : layer {
  param weight{6}, bias{2};
  void visit_parameters(gradsync::parameter_visitor& visit) override { visit.members_of (*this)("weight", weight)("bias", bias); }
};

// 2. What belongs to a model and is not trained is a state: every rank begins with rank 0's, and nothing is ever reduced.
struct batch_norm : layer {
  param scale{2};
  gradsync::state<std::vector<float>> mean{{0, 0}};
  void visit_parameters(gradsync::parameter_visitor& visit) override { visit.members_of (*this)("scale", scale)("mean", mean); }
};
struct polymorphic_model {
  std::vector<std::unique_ptr<layer>> layers;
  gradsync::frozen<param> embedding{param(4)};  // the same, said of a layer
};

// 3. As in llm.c: a struct of pointers into one block, another for the gradients, and a list of counts. Or an arena and a list of names.
struct tensors {
  float *wte, *wpe, *lnf;
};

// 4. A model whose types say how long everything is: plan and cost are known to the compiler.
struct fixed_model {
  std::array<float, 256> weight;
  std::array<float, 16> bias;
};
constexpr auto fixed_plan = gradsync::constant_plan<fixed_model>({.bucket_bytes = 1024});
static_assert(fixed_plan.size == 2 && gradsync::replica_bytes<fixed_model>() <= 4096);

int main() {
  polymorphic_model net;
  net.layers.push_back(std::make_unique<linear>());
  net.layers.push_back(std::make_unique<batch_norm>());
  std::cout << gradsync::describe(net);
  for (const gradsync::state_entry& s : gradsync::states_of(net)) std::cout << "state " << s.name << ", " << s.count << " elements\n";

  gradsync::thread_group{2}.run([](auto& comm) {
    const std::array<std::size_t, 3> counts = {32, 8, 4};
    std::vector<float> values(44), grads(44, static_cast<float>(comm.rank()));
    const auto point = [](std::vector<float>& all) { return tensors{&all[0], &all[32], &all[40]}; };
    tensors params = point(values), gradients = point(grads);
    gradsync::tensor_table table{params, gradients, counts, {.part_bytes = 64}};  // wte travels in two parts
    gradsync::synchronizer sync{table, comm, {.layout = gradsync::layout::adopted}};
    sync.mark_ready(gradients.lnf);  // a pointer member stands for its tensor
    sync.mark_ready(gradients.wpe);
    sync.mark_ready(table["wte"]);  // one in parts is marked by its name
    sync.finish();
    if (comm.rank() == 0) std::cout << sync.describe_plan() << "mean gradient: " << grads[0] << " to " << grads[43] << '\n';
  });
}

// Next: train_fashion trains a real model.
