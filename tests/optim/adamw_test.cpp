// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

#include "gradsync/optim/adamw.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "tests/optim/one_array.hpp"

using test::one_array;

namespace {

template <class T>
std::vector<T> train() {
  return test::four_steps<T>([](auto& model) {
    return gradsync::adamw{model, {.learning_rate = 0.1, .beta2 = 0.99, .weight_decay = 0.05}};
  });
}

}  // namespace

TEST_CASE("four steps give the numbers of the formula, computed elsewhere") {
  const std::vector<double> want{0.5925389715160604, -1.8086062121521047, 0.09392996227940756};
  const auto wide = train<double>();
  const auto narrow = train<float>();
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(std::abs(wide[i] - want[i]) < 1e-13);
    CHECK(std::abs(static_cast<double>(narrow[i]) - want[i]) < 2e-6);
  }
}

TEST_CASE("the first step goes by the learning rate against the gradient, whatever its length") {
  one_array<double> model{{{1, 1, 1}, {1e-3, -50, 0}}};
  gradsync::adamw opt{model, {.learning_rate = 0.1, .epsilon = 1e-12, .weight_decay = 0}};
  opt.step();
  CHECK(model.weight.value[0] == doctest::Approx(0.9).epsilon(1e-8));
  CHECK(model.weight.value[1] == doctest::Approx(1.1).epsilon(1e-8));
  CHECK(model.weight.value[2] == 1);
}

TEST_CASE("weight decay is decoupled: it shrinks a value whose gradient is zero, and leaves the moments alone") {
  one_array<double> model{{{2}, {0}}};
  gradsync::adamw opt{model, {.learning_rate = 0.5, .weight_decay = 0.5}};
  opt.step();
  CHECK(model.weight.value[0] == 1.5);
  opt.step();
  CHECK(model.weight.value[0] == 1.125);
}

TEST_CASE("the moments cost twice the bytes of the values") {
  one_array<float> model{{{1, 2, 3}, {1, 1, 1}}};
  CHECK(gradsync::adamw{model}.state_bytes() == 24);
  struct plain {
    std::vector<double> weight;
  } values{{1, 2}}, grads{{1, -1}};
  gradsync::adamw opt{values, grads, {.learning_rate = 0.1}};
  CHECK(opt.state_bytes() == 32);
  opt.step();
  CHECK(values.weight[0] < 1);
  CHECK(values.weight[1] > 2);
}

TEST_CASE("the same bits come out wherever the memory lies") {
  test::same_bits_wherever_memory_lies([](auto& model) { return gradsync::adamw{model, {.learning_rate = 0.01}}; });
}

TEST_CASE("settings out of range and gradients that are missing are errors, and nothing changes") {
  one_array<float> model{{{1, 2, 3}, {1, 1, 1}}};
  CHECK_THROWS_AS((gradsync::adamw{model, {.learning_rate = -1}}), gradsync::usage_error);
  CHECK_THROWS_WITH_AS((gradsync::adamw{model, {.beta1 = 1}}), "gradsync: beta1 is 1.000000; it must be at least 0 and less than 1",
                       gradsync::usage_error);
  CHECK_THROWS_AS((gradsync::adamw{model, {.beta2 = -0.1}}), gradsync::usage_error);
  CHECK_THROWS_AS((gradsync::adamw{model, {.epsilon = std::nan("")}}), gradsync::usage_error);
  CHECK_THROWS_AS((gradsync::adamw{model, {.weight_decay = std::numeric_limits<double>::infinity()}}), gradsync::usage_error);
  gradsync::adamw opt{model};
  model.weight.grad.clear();
  CHECK_THROWS_AS(opt.step(), gradsync::usage_error);
  CHECK(model.weight.value == std::vector<float>{1, 2, 3});
}
