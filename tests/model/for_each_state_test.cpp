// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

#include "gradsync/model/for_each_state.hpp"

#include <doctest/doctest.h>

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "gradsync/model/fingerprint.hpp"
#include "gradsync/model/for_each_parameter.hpp"
#include "tests/model/names.hpp"

namespace {

struct param {
  std::vector<float> value, grad;
};
struct norm {
  param scale;
  gradsync::state<std::vector<float>> mean;
  gradsync::state<std::int64_t> batches;
};
enum class kind : std::int16_t { a, b };

using test::names, test::names_of;

}  // namespace

TEST_CASE("states are listed apart from parameters") {
  struct net {
    std::vector<norm> layers;
    param head;
  } model{{{{{1}, {}}, {{2, 3}}, {4}}, {{{5}, {}}, {{6}}, {7}}}, {{1, 2}, {}}};
  CHECK(names_of(gradsync::parameters_of(model)) == names{"layers[0].scale", "layers[1].scale", "head"});
  const auto states = gradsync::states_of(model);
  REQUIRE(names_of(states) == names{"layers[0].mean", "layers[0].batches", "layers[1].mean", "layers[1].batches"});
  CHECK(states[0].type == gradsync::dtype::float32);
  CHECK(states[0].count == 2);
  CHECK(states[0].value().data == reinterpret_cast<std::byte*>(model.layers[0].mean.value.data()));
  CHECK(states[3].type == gradsync::dtype::int64);
  CHECK(states[3].count == 1);
  CHECK(states[3].value().data == reinterpret_cast<std::byte*>(&model.layers[1].batches.value));
}

TEST_CASE("numbers of every kind count in a state, and what is no number, or const, is passed over") {
  struct settings {
    float rate = 0.5f;
    int grid[2][3] = {};
    bool on = true;
    kind how = kind::a;
    std::array<std::uint8_t, 5> bytes{};
    std::span<double> view;
    std::vector<std::vector<int>> rows{{1, 2}, {3}};
    std::optional<int> seed = 3;
    std::optional<int> none;
    std::unique_ptr<long> count = std::make_unique<long>(1);
    std::pair<int, float> both;
    std::map<std::string, float> table{{"x", 1.0f}, {"y", 2.0f}};
    std::string title = "passed over";
    std::vector<std::string> words{"so", "are"};
    const int classes = 10;
    gradsync::skip<std::vector<float>> cache{{1, 2, 3}};
    gradsync::state<int> twice{1};
  };
  struct net {
    gradsync::state<settings> all;
  } model;
  double numbers[2] = {};
  model.all->view = numbers;
  CHECK_THROWS_AS(gradsync::parameters_of(model), gradsync::usage_error);
  const auto states = gradsync::states_of(model);
  CHECK(names_of(states) == names{"all.rate", "all.grid", "all.on", "all.how", "all.bytes", "all.view", "all.rows[0]", "all.rows[1]",
                                  "all.seed", "all.count", "all.both.first", "all.both.second", "all.table.x", "all.table.y", "all.twice"});
  using gradsync::dtype;
  const std::vector<dtype> types = {dtype::float32, dtype::int32,   dtype::uint8,   dtype::int16,   dtype::uint8,
                                    dtype::float64, dtype::int32,   dtype::int32,   dtype::int32,   dtype::int64,
                                    dtype::int32,   dtype::float32, dtype::float32, dtype::float32, dtype::int32};
  const std::vector<std::size_t> counts = {1, 6, 1, 1, 5, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1};
  for (std::size_t i = 0; i < states.size(); ++i) {
    CHECK(states[i].type == types[i]);
    CHECK(states[i].count == counts[i]);
    CHECK(states[i].value().count == counts[i]);
  }
}

TEST_CASE("a frozen layer gives its values, not its gradients, and is not trained") {
  struct layer {
    param weight, bias;
    int inputs = 4;
  };
  struct net {
    gradsync::frozen<std::vector<layer>> body;
    param head;
  } model{{{{{{1, 2}, {9}}, {{3}, {}}}}}, {{4}, {}}};
  CHECK(names_of(gradsync::parameters_of(model)) == names{"head"});
  const auto states = gradsync::states_of(model);
  REQUIRE(names_of(states) == names{"body[0].weight", "body[0].bias", "body[0].inputs"});
  CHECK(states[0].value().data == reinterpret_cast<std::byte*>(model.body->at(0).weight.value.data()));
  CHECK(states[0].bytes() == 8);
}

TEST_CASE("beside a second object with the gradients, the state of the model counts, and that of the twin is ignored") {
  struct net {
    std::vector<float> weight;
    gradsync::state<std::vector<float>> mean;
  } model{{1, 2}, {{3}}}, grads{{0, 0}, {}};
  CHECK(names_of(gradsync::parameters_of(model, grads)) == names{"weight"});
  const auto states = gradsync::states_of(model);
  REQUIRE(names_of(states) == names{"mean"});
  CHECK(states[0].value().count == 1);
}

namespace {

class hidden {
 public:
  friend void visit_parameters(hidden& self, auto& visit) {
    visit.state("mean", self.mean_);
    visit("scale", self.scale_);
    visit.state("old", self.old_);
  }

 private:
  std::vector<float> mean_{1, 2};
  param scale_{{3}, {}}, old_{{4, 5, 6}, {7}};
};

class plain {
 public:
  friend void visit_parameters(plain& self, auto& visit) {
    visit.state("steps", self.steps);
    visit("weight", self.weight);
  }
  int steps = 0;
  std::vector<float> weight{1};
};

}  // namespace

TEST_CASE("a hook says what is state, with or without a twin") {
  hidden one;
  CHECK(names_of(gradsync::parameters_of(one)) == names{"scale"});
  CHECK(names_of(gradsync::states_of(one)) == names{"mean", "old"});
  CHECK(gradsync::states_of(one)[1].count == 3);
  plain model, grads;
  CHECK(gradsync::parameters_of(model, grads)[0].aliases[0].grad == &grads.weight);
  CHECK(gradsync::states_of(model)[0].value().data == reinterpret_cast<std::byte*>(&model.steps));
  gradsync::frozen<hidden> all;
  CHECK(names_of(gradsync::states_of(all)) == names{"mean", "scale", "old"});
}

TEST_CASE("a model without states has an empty list, and a shared state stands in it once") {
  param nothing{{1}, {}};
  CHECK(gradsync::states_of(nothing).empty());
  auto shared = std::make_shared<int>(1);
  struct net {
    gradsync::state<std::shared_ptr<int>> a, b;
  } model{{shared}, {shared}};
  CHECK(names_of(gradsync::states_of(model)) == names{"a"});
}

TEST_CASE("states are part of a model's fingerprint") {
  struct net {
    param weight;
    gradsync::state<int> steps;
  } one{{{1}, {}}, {1}}, two{{{1}, {}}, {2}};
  CHECK(gradsync::fingerprint(one) != gradsync::fingerprint(two));
  two.steps = 1;
  CHECK(gradsync::fingerprint(one) == gradsync::fingerprint(two));
  CHECK(gradsync::fingerprint(one) == gradsync::fingerprint(gradsync::parameters_of(one), gradsync::states_of(one)));
}
