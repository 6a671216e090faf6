// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

#include "gradsync/optim/adamw.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <span>
#include <vector>

namespace {

template <class T>
struct net {
  struct {
    std::vector<T> value, grad;
  } weight;
};

template <class T>
std::vector<T> train() {
  net<T> model{{{1, -2, T(0.5)}, {0, 0, 0}}};
  gradsync::adamw opt{model, {.learning_rate = 0.1, .beta2 = 0.99, .weight_decay = 0.05}};
  for (int t = 0; t < 4; ++t) {
    const auto& w = model.weight.value;
    const T step = static_cast<T>(t);
    model.weight.grad = {T(0.5) * (step + 1) + T(0.1) * w[0], step - 1 + T(0.1) * w[1], T(0.25) + T(0.1) * w[2]};
    opt.step();
  }
  return model.weight.value;
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
  net<double> model{{{1, 1, 1}, {1e-3, -50, 0}}};
  gradsync::adamw opt{model, {.learning_rate = 0.1, .epsilon = 1e-12, .weight_decay = 0}};
  opt.step();
  CHECK(model.weight.value[0] == doctest::Approx(0.9).epsilon(1e-8));
  CHECK(model.weight.value[1] == doctest::Approx(1.1).epsilon(1e-8));
  CHECK(model.weight.value[2] == 1);
}

TEST_CASE("weight decay is decoupled: it shrinks a value whose gradient is zero, and leaves the moments alone") {
  net<double> model{{{2}, {0}}};
  gradsync::adamw opt{model, {.learning_rate = 0.5, .weight_decay = 0.5}};
  opt.step();
  CHECK(model.weight.value[0] == 1.5);
  opt.step();
  CHECK(model.weight.value[0] == 1.125);
}

TEST_CASE("the moments cost twice the bytes of the values") {
  net<float> model{{{1, 2, 3}, {1, 1, 1}}};
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
  constexpr std::size_t count = 1003;
  struct view {
    struct {
      std::span<float> value, grad;
    } weight;
  };
  std::vector<float> results[4];
  for (std::size_t offset = 0; offset < 4; ++offset) {
    std::vector<float> value(count + 4), grad(count + 8);
    view model{{std::span(value).subspan(offset, count), std::span(grad).subspan(2 * offset, count)}};
    for (std::size_t i = 0; i < count; ++i) model.weight.value[i] = 1.0f / static_cast<float>(i + 1);
    gradsync::adamw opt{model, {.learning_rate = 0.01}};
    for (int t = 0; t < 5; ++t) {
      for (std::size_t i = 0; i < count; ++i) model.weight.grad[i] = model.weight.value[i] * 0.3f + static_cast<float>(i % 7) * 0.01f;
      opt.step();
    }
    results[offset].assign(model.weight.value.begin(), model.weight.value.end());
  }
  for (std::size_t offset = 1; offset < 4; ++offset)
    CHECK(std::memcmp(results[offset].data(), results[0].data(), count * sizeof(float)) == 0);
}

TEST_CASE("settings out of range and gradients that are missing are errors, and nothing changes") {
  net<float> model{{{1, 2, 3}, {1, 1, 1}}};
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
