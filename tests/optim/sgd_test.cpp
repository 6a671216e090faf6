// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

#include "gradsync/optim/sgd.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "tests/optim/one_array.hpp"

using test::one_array;

namespace {

template <class T>
std::vector<T> train(gradsync::sgd_options options) {
  return test::four_steps<T>([&](auto& model) { return gradsync::sgd{model, options}; });
}

void check_close(const std::vector<double>& got, const std::vector<double>& want) {
  REQUIRE(got.size() == want.size());
  for (std::size_t i = 0; i < got.size(); ++i) CHECK(std::abs(got[i] - want[i]) < 1e-14);
}

}  // namespace

TEST_CASE("four steps give the numbers of the formula, computed elsewhere") {
  check_close(train<double>({.learning_rate = 0.1}), {0.4655710599999999, -2.12316212, 0.38178802999999994});
  check_close(train<double>({.learning_rate = 0.1, .momentum = 0.9, .weight_decay = 0.01}),
              {-0.015074491509000087, -1.859115216982, 0.2286207792455});
  check_close(train<double>({.learning_rate = 0.1, .momentum = 0.9, .weight_decay = 0.01, .nesterov = true}),
              {-0.43638397102306925, -2.0006584457538623, 0.14098631296346553});
}

TEST_CASE("float parameters follow the same path in their own precision") {
  const auto wide = train<double>({.learning_rate = 0.1, .momentum = 0.9, .weight_decay = 0.01});
  const auto narrow = train<float>({.learning_rate = 0.1f, .momentum = 0.9f, .weight_decay = 0.01f});
  for (std::size_t i = 0; i < 3; ++i) CHECK(std::abs(static_cast<double>(narrow[i]) - wide[i]) < 1e-6);
}

TEST_CASE("a plain step is exact where the numbers are") {
  one_array<float> model{{{1, 2, 3}, {2, 4, -8}}};
  gradsync::sgd opt{model, {.learning_rate = 0.5}};
  opt.step();
  CHECK(model.weight.value == std::vector<float>{0, 0, 7});
  opt.options().learning_rate = 0.25;
  opt.step();
  CHECK(model.weight.value == std::vector<float>{-0.5, -1, 9});
  CHECK(opt.state_bytes() == 0);
}

TEST_CASE("momentum costs the bytes of the values, once it is used") {
  one_array<double> model{{{1, 2, 3}, {1, 1, 1}}};
  gradsync::sgd opt{model, {.learning_rate = 1, .momentum = 0.5}};
  opt.step();
  CHECK(opt.state_bytes() == 24);
  opt.step();
  CHECK(model.weight.value == std::vector<double>{1 - 1 - 1.5, 2 - 2.5, 3 - 2.5});
}

TEST_CASE("gradients may be a second object") {
  struct plain {
    std::vector<float> weight;
  } model{{1, 2}}, grads{{1, -1}};
  gradsync::sgd opt{model, grads, {.learning_rate = 0.5}};
  opt.step();
  CHECK(model.weight == std::vector<float>{0.5, 2.5});
  grads.weight = std::vector<float>{4, 4};
  opt.step();
  CHECK(model.weight == std::vector<float>{-1.5, 0.5});
  gradsync::sgd with_defaults{model, grads};
  CHECK(with_defaults.options().learning_rate == 0.01);
}

TEST_CASE("the same bits come out wherever the memory lies") {
  test::same_bits_wherever_memory_lies([](auto& model) {
    return gradsync::sgd{model, {.learning_rate = 0.1, .momentum = 0.9, .weight_decay = 0.01}};
  });
}

TEST_CASE("settings out of range and gradients that are missing are errors, and nothing changes") {
  one_array<float> model{{{1, 2, 3}, {1, 1, 1}}};
  CHECK_THROWS_AS((gradsync::sgd{model, {.learning_rate = -0.1}}), gradsync::usage_error);
  CHECK_THROWS_AS((gradsync::sgd{model, {.learning_rate = std::numeric_limits<double>::infinity()}}), gradsync::usage_error);
  CHECK_THROWS_AS((gradsync::sgd{model, {.momentum = 1}}), gradsync::usage_error);
  CHECK_THROWS_AS((gradsync::sgd{model, {.momentum = std::nan("")}}), gradsync::usage_error);
  CHECK_THROWS_AS((gradsync::sgd{model, {.weight_decay = -1}}), gradsync::usage_error);
  CHECK_THROWS_WITH_AS((gradsync::sgd{model, {.nesterov = true}}), "gradsync: nesterov needs a momentum above 0", gradsync::usage_error);

  gradsync::sgd opt{model, {.learning_rate = 0.1}};
  opt.options().learning_rate = std::nan("");
  CHECK_THROWS_AS(opt.step(), gradsync::usage_error);
  opt.options().learning_rate = 0.1;
  model.weight.grad.clear();
  CHECK_THROWS_WITH_AS(opt.step(), "gradsync \"weight\": has 3 elements, its gradient 0; compute all gradients before a step",
                       gradsync::usage_error);
  model.weight.value.resize(2);
  model.weight.grad.resize(2);
  CHECK_THROWS_WITH_AS(opt.step(),
                       "gradsync \"weight\": had 3 elements when the optimizer was made, now 2; "
                       "make a new optimizer after a change of the model",
                       gradsync::usage_error);
  CHECK(model.weight.value == std::vector<float>{1, 2});
}
