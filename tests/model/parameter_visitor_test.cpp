// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

#include "gradsync/model/parameter_visitor.hpp"

#include <doctest/doctest.h>

#include <cstdlib>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "gradsync/model/fingerprint.hpp"
#include "gradsync/model/for_each_parameter.hpp"
#include "gradsync/model/for_each_state.hpp"
#include "tests/model/names.hpp"

namespace {

std::size_t allocations = 0;

}  // namespace

void* operator new(std::size_t size) {
  ++allocations;
  if (void* memory = std::malloc(size)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace {

using test::names, test::names_in, test::names_of;

struct param {
  std::vector<float> value, grad;
};

struct layer {
  virtual ~layer() = default;
  virtual void visit_parameters(gradsync::parameter_visitor& visit) = 0;
};
struct linear : layer {
  param weight{{1, 2}, {}}, bias{{3}, {}};
  void visit_parameters(gradsync::parameter_visitor& visit) override { visit.members_of (*this)("weight", weight)("bias", bias); }
};
struct activation : layer {
  void visit_parameters(gradsync::parameter_visitor& visit) override { visit.members_of(*this); }
};
struct norm : layer {
  param scale{{4}, {}};
  std::vector<float> mean{5, 6};
  int batches = 0;
  void visit_parameters(gradsync::parameter_visitor& visit) override {
    visit.members_of(*this);
    visit("scale", scale);
    visit.state("mean", mean);
    visit.state("batches", batches);
  }
};
struct block : layer {
  std::vector<std::unique_ptr<layer>> inner;
  param own{{7}, {}};
  void visit_parameters(gradsync::parameter_visitor& visit) override { visit.members_of (*this)("inner", inner)("own", own); }
};
struct scaled_linear : linear {
  param scale{{8}, {}};
  void visit_parameters(gradsync::parameter_visitor& visit) override {
    linear::visit_parameters(visit);
    visit.members_of (*this)("scale", scale);
  }
};
struct forgetful : linear {
  param scale{{8}, {}};
};
struct silent : layer {
  param weight{{1}, {}};
  void visit_parameters(gradsync::parameter_visitor& visit) override { visit("weight", weight); }
};
struct passes_on : layer {
  linear inner;
  void visit_parameters(gradsync::parameter_visitor& visit) override { inner.visit_parameters(visit); }
};

struct net {
  std::vector<std::unique_ptr<layer>> layers;
  std::shared_ptr<layer> head;
};

net make_net() {
  net model;
  model.layers.push_back(std::make_unique<linear>());
  model.layers.push_back(std::make_unique<activation>());
  auto deep = std::make_unique<block>();
  deep->inner.push_back(std::make_unique<norm>());
  deep->inner.push_back(nullptr);
  deep->inner.push_back(std::make_unique<scaled_linear>());
  model.layers.push_back(std::move(deep));
  model.head = std::make_shared<linear>();
  return model;
}

}  // namespace

TEST_CASE("layers behind pointers to their base show their parameters and states") {
  net model = make_net();
  CHECK(names_in(model) == names{"layers[0].weight", "layers[0].bias", "layers[2].inner[0].scale", "layers[2].inner[2].weight",
                                 "layers[2].inner[2].bias", "layers[2].inner[2].scale", "layers[2].own", "head.weight", "head.bias"});
  CHECK(names_of(gradsync::states_of(model)) == names{"layers[2].inner[0].mean", "layers[2].inner[0].batches"});
  CHECK(gradsync::states_of(model)[0].count == 2);
  const auto all = gradsync::parameters_of(model);
  auto& first = dynamic_cast<linear&>(*model.layers[0]);
  CHECK(all[0].aliases[0].parameter == &first.weight);
  CHECK(all[0].count == 2);
  net same = make_net();
  CHECK(gradsync::fingerprint(model) == gradsync::fingerprint(same));
}

TEST_CASE("a layer that stands in a model twice is tied") {
  net model = make_net();
  struct shared {
    std::shared_ptr<layer> first, second;
  } tied{model.head, model.head};
  const auto all = gradsync::parameters_of(tied);
  REQUIRE(all.size() == 2);
  CHECK(all[0].aliases.size() == 2);
  CHECK(all[0].aliases[1].name == "second.weight");
}

TEST_CASE("a mark of a base reference means all parameters of the object, and allocates nothing") {
  net model = make_net();
  std::vector<const void*> marks;
  marks.reserve(16);
  const auto note = [&](const void* address) { marks.push_back(address); };
  const std::size_t before = allocations;
  gradsync::for_each_mark(*model.layers[0], note);
  gradsync::for_each_mark(model.layers[2], note);
  CHECK(allocations == before);
  auto& first = dynamic_cast<linear&>(*model.layers[0]);
  REQUIRE(marks.size() == 7);
  CHECK(marks[0] == &first.weight);
  CHECK(marks[1] == &first.bias);
  std::size_t found = 0;
  for (const auto& p : gradsync::parameters_of(model))
    for (const void* address : marks) found += p.aliases[0].parameter == address;
  CHECK(found == 7);
  marks.clear();
  gradsync::for_each_mark(model, note);
  CHECK(marks.size() == gradsync::parameters_of(model).size());
}

TEST_CASE("a class that inherits the hook but adds members is an error with the recipe, also in a mark") {
  net model;
  model.layers.push_back(std::make_unique<linear>());
  model.layers.push_back(std::make_unique<forgetful>());
  const char* const message =
      "gradsync \"layers[1]\": no hook has shown the members of this object's own class: override visit_parameters in it, call the one of "
      "its base there, and say visit.members_of(*this)(\"bias\", bias)";
  CHECK_THROWS_WITH_AS(gradsync::parameters_of(model), message, gradsync::usage_error);
  CHECK_THROWS_WITH_AS(gradsync::states_of(model), message, gradsync::usage_error);
  CHECK_THROWS_AS(gradsync::for_each_mark(*model.layers[1], [](const void*) {}), gradsync::usage_error);
  forgetful by_value;
  CHECK_THROWS_AS(gradsync::parameters_of(by_value), gradsync::usage_error);
  model.layers[1] = std::make_unique<silent>();
  CHECK_THROWS_WITH_AS(gradsync::parameters_of(model), message, gradsync::usage_error);
  model.layers[1] = std::make_unique<passes_on>();
  CHECK_THROWS_WITH_AS(gradsync::parameters_of(model), message, gradsync::usage_error);
}

namespace {

struct plain_layer {
  virtual ~plain_layer() = default;
  virtual void visit_parameters(gradsync::parameter_visitor& visit) = 0;
};
struct plain_linear : plain_layer {
  std::vector<float> weight{1, 2}, bias{3};
  std::vector<float> mean{9};
  bool has_bias = true;
  void visit_parameters(gradsync::parameter_visitor& visit) override {
    visit.members_of(*this).state("mean", mean)("weight", weight);
    if (has_bias) visit("bias", bias);
  }
};
struct plain_block : plain_layer {
  std::unique_ptr<plain_layer> inner = std::make_unique<plain_linear>();
  void visit_parameters(gradsync::parameter_visitor& visit) override { visit.members_of (*this)("inner", inner); }
};
struct either : plain_layer {
  bool wide = false;
  std::vector<float> narrow_weight;
  std::vector<double> wide_weight;
  void visit_parameters(gradsync::parameter_visitor& visit) override {
    visit.members_of(*this);
    if (wide) visit("weight", wide_weight);
    else visit("weight", narrow_weight);
  }
};
using plain_net = std::vector<std::unique_ptr<plain_layer>>;

}  // namespace

TEST_CASE("gradients in a second object of the same dynamic structure are found by position") {
  plain_net model, grads;
  for (plain_net* one : {&model, &grads}) {
    one->push_back(std::make_unique<plain_linear>());
    one->push_back(std::make_unique<plain_block>());
  }
  const auto all = gradsync::parameters_of(model, grads);
  REQUIRE(names_in(model, grads) == names{"[0].weight", "[0].bias", "[1].inner.weight", "[1].inner.bias"});
  CHECK(all[1].aliases[0].value == &dynamic_cast<plain_linear&>(*model[0]).bias);
  CHECK(all[1].aliases[0].grad == &dynamic_cast<plain_linear&>(*grads[0]).bias);
  auto& inner = dynamic_cast<plain_linear&>(*dynamic_cast<plain_block&>(*grads[1]).inner);
  CHECK(all[2].aliases[0].grad == &inner.weight);
  CHECK(names_of(gradsync::states_of(model)) == names{"[0].mean", "[1].inner.mean"});

  inner.has_bias = false;
  CHECK_THROWS_WITH_AS(gradsync::parameters_of(model, grads),
                       "gradsync \"[1].inner.bias\": its twin among the gradients is of another type, or missing; build both alike",
                       gradsync::usage_error);
  CHECK_THROWS_WITH_AS(gradsync::parameters_of(grads, model),
                       "gradsync \"[1].inner\": its twin among the gradients has another number of members; build both alike",
                       gradsync::usage_error);
  grads[1] = std::make_unique<plain_linear>();
  CHECK_THROWS_WITH_AS(gradsync::parameters_of(model, grads),
                       "gradsync \"[1]\": its twin among the gradients is of another class; build both alike", gradsync::usage_error);
}

TEST_CASE("a twin whose hook shows another type is an error, not a loss") {
  either model, grads;
  model.wide = true;
  CHECK_THROWS_WITH_AS(gradsync::parameters_of(model, grads),
                       "gradsync \"weight\": its twin among the gradients is of another type, or missing; build both alike",
                       gradsync::usage_error);
}

TEST_CASE("what compiles elsewhere is said at run time: no gradient, and two of them") {
  plain_net model;
  model.push_back(std::make_unique<plain_linear>());
  CHECK_THROWS_WITH_AS(gradsync::parameters_of(model), doctest::Contains("\"[0].weight\": this container of floats has no gradient"),
                       gradsync::usage_error);
  net one = make_net(), two = make_net();
  CHECK_THROWS_WITH_AS(gradsync::parameters_of(one, two), doctest::Contains("\"layers[0].weight\": this type holds its gradient itself"),
                       gradsync::usage_error);
}

TEST_CASE("a frozen layer may be polymorphic") {
  struct model_type {
    gradsync::frozen<std::unique_ptr<layer>> body;
    param head{{1}, {}};
  } model;
  auto inner = std::make_unique<block>();
  inner->inner.push_back(std::make_unique<norm>());
  *model.body = std::move(inner);
  CHECK(names_in(model) == names{"head"});
  CHECK(names_of(gradsync::states_of(model)) == names{"body.inner[0].scale", "body.inner[0].mean", "body.inner[0].batches", "body.own"});
}
