// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

// Models that come in by other doors than plain structs are kept in step like any other.
#include <doctest/doctest.h>

#include <memory>
#include <vector>

#include "gradsync/gradsync.hpp"

namespace {

struct param {
  std::vector<float> value, grad;
};
struct layer {
  virtual ~layer() = default;
  virtual void visit_parameters(gradsync::parameter_visitor& visit) = 0;
};
struct linear : layer {
  param weight, bias;
  explicit linear(float x) : weight{{x, x}, {x, 2 * x}}, bias{{x}, {3 * x}} {}
  void visit_parameters(gradsync::parameter_visitor& visit) override { visit.members_of (*this)("weight", weight)("bias", bias); }
};
struct net {
  std::vector<std::unique_ptr<layer>> layers;
};

struct tensors {
  float *a, *b;
};

}  // namespace

TEST_CASE("polymorphic layers are marked by references to their base, one after the other") {
  gradsync::thread_group{3}.run([](auto& comm) {
    net model;
    for (int i = 0; i < 2; ++i) model.layers.push_back(std::make_unique<linear>(static_cast<float>(comm.rank())));
    gradsync::synchronizer sync{model, comm, {.bucket_bytes = 12, .first_bucket_bytes = 12}};
    for (int step = 0; step < 2; ++step) {
      for (auto& one : model.layers) dynamic_cast<linear&>(*one).weight.grad = {static_cast<float>(comm.rank()), 4};
      sync.mark_ready(*model.layers[1]);
      sync.mark_ready(model.layers[0]);
      sync.finish();
      for (auto& one : model.layers) {
        const auto& l = dynamic_cast<linear&>(*one);
        REQUIRE(l.weight.value == std::vector<float>{0, 0});
        REQUIRE(l.weight.grad == std::vector<float>{1, 4});
        REQUIRE(l.bias.grad == std::vector<float>{3});
      }
    }
  });
}

TEST_CASE("a table of raw pointers is marked by the pointers, and adopted where it lies") {
  for (const auto how : {gradsync::layout::in_place, gradsync::layout::packed, gradsync::layout::adopted})
    gradsync::thread_group{2}.run([how](auto& comm) {
      const std::size_t counts[] = {5, 3};
      std::vector<float> values(8, static_cast<float>(comm.rank())), grads(8, static_cast<float>(2 * comm.rank()));
      tensors value{&values[0], &values[5]}, grad{&grads[0], &grads[5]};
      gradsync::tensor_table table{value, grad, counts};
      gradsync::synchronizer sync{table, comm, {.layout = how}};
      REQUIRE(values == std::vector<float>(8, 0));
      sync.mark_ready(grad.b);
      sync.mark_ready(value.a);
      sync.finish();
      REQUIRE(grads == std::vector<float>(8, 1));
      tensors copy = grad;
      CHECK_THROWS_AS(sync.mark_ready(copy.a), gradsync::usage_error);
    });
}
