// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

#include "gradsync/model/for_each_parameter.hpp"

#include <doctest/doctest.h>

#include <array>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tests/model/names.hpp"

namespace {

struct param {
  std::vector<float> value, grad;
};
struct layer {
  param weight, bias;
};
enum class activation { relu, tanh };
struct empty {};

param make_param(std::size_t count) { return {std::vector<float>(count), std::vector<float>(count)}; }
layer make_layer(std::size_t inputs, std::size_t outputs) { return {make_param(inputs * outputs), make_param(outputs)}; }

using test::names, test::names_of;

template <class F>
std::string message_of(F f) {
  try {
    f();
  } catch (const gradsync::usage_error& e) {
    return e.what();
  }
  return "no usage_error";
}

}  // namespace

TEST_CASE("a plain aggregate is opened: layers in members, vectors, std::arrays and C arrays, named by their paths") {
  struct net {
    layer first;
    std::vector<layer> hidden;
    std::array<layer, 2> pair;
    layer grid[2][1];
    param scale;
  };
  net model{make_layer(2, 3), {make_layer(3, 3), make_layer(3, 4)}, {}, {}, make_param(1)};
  const auto all = gradsync::parameters_of(model);
  CHECK(names_of(all) == names{"first.weight", "first.bias", "hidden[0].weight", "hidden[0].bias", "hidden[1].weight", "hidden[1].bias",
                               "pair[0].weight", "pair[0].bias", "pair[1].weight", "pair[1].bias", "grid[0][0].weight", "grid[0][0].bias",
                               "grid[1][0].weight", "grid[1][0].bias", "scale"});
  CHECK(all[0].count == 6);
  CHECK(all[4].count == 12);
  CHECK(all[6].count == 0);
  CHECK(all[4].value().data == reinterpret_cast<std::byte*>(model.hidden[1].weight.value.data()));
  CHECK(all[4].grad().data == reinterpret_cast<std::byte*>(model.hidden[1].weight.grad.data()));
  CHECK(all[4].type == gradsync::dtype::float32);
}

TEST_CASE("settings of all kinds are passed over") {
  struct net {
    float learning_rate = 0.1f;
    param weight = make_param(2);
    int epoch = 0;
    bool trained = false;
    activation kind = activation::relu;
    std::string title = "net";
    const char* author = "nobody";
    empty nothing;
    std::vector<int> vocabulary;
    std::vector<std::string> words;
    std::vector<bool> flags;
    std::array<int, 3> shape{};
    int kernel[2] = {3, 3};
    std::map<std::string, int> index_of;
    void (*hook)(int) = nullptr;
    gradsync::skip<std::vector<float>> cache;
    gradsync::skip<float[4]> table;
    gradsync::skip<float*> scratch;
    const int classes = 10;
  };
  net model;
  CHECK(names_of(gradsync::parameters_of(model)) == names{"weight"});
  std::vector<float>& cache = model.cache;
  CHECK(cache.empty());
}

TEST_CASE("value and gradient may be vectors, arrays and spans of float or double, of different kinds") {
  struct net {
    struct {
      std::vector<double> value;
      std::vector<double> grad;
    } a;
    struct {
      std::array<float, 3> value;
      std::array<float, 3> grad;
    } b;
    struct {
      std::span<float> value, grad;
    } c;
    struct {
      std::vector<float> value;
      std::span<float> grad;
      int step;
    } d;
  };
  float memory[4] = {1, 2, 3, 4};
  net model{};
  model.a.value.resize(5);
  model.c = {std::span(memory).first(2), std::span(memory).last(2)};
  model.d.value.resize(7);
  const auto all = gradsync::parameters_of(model);
  REQUIRE(names_of(all) == names{"a", "b", "c", "d"});
  CHECK(all[0].type == gradsync::dtype::float64);
  CHECK(all[0].bytes() == 40);
  CHECK(all[1].count == 3);
  CHECK(all[2].value().data == reinterpret_cast<std::byte*>(memory));
  CHECK(all[2].grad().data == reinterpret_cast<std::byte*>(memory + 2));

  CHECK((all[0].grad_access.resize != nullptr));
  CHECK((all[1].grad_access.resize == nullptr));
  CHECK((all[0].grad_access.point == nullptr));
  REQUIRE((all[3].grad_access.point != nullptr));
  float elsewhere[7] = {};
  all[3].grad_access.point(all[3].aliases[0].grad, reinterpret_cast<std::byte*>(elsewhere), 7);
  CHECK(model.d.grad.data() == elsewhere);
  CHECK(model.d.grad.size() == 7);
}

TEST_CASE("pointers are read afresh, and an empty gradient takes the length of its value") {
  struct net {
    param weight;
  } model{{std::vector<float>(3), {}}};
  const auto all = gradsync::parameters_of(model);
  CHECK(all[0].grad().count == 0);
  CHECK(all[0].resize_grad());
  CHECK(model.weight.grad.size() == 3);
  model.weight.grad = std::vector<float>{7, 8, 9};
  CHECK(all[0].grad().data == reinterpret_cast<std::byte*>(model.weight.grad.data()));
  CHECK(all[0].aliases[0].parameter == &model.weight);
  CHECK(all[0].aliases[0].value == &model.weight.value);
  CHECK(all[0].aliases[0].grad == &model.weight.grad);
}

TEST_CASE("gradients may be a second object of the model's type") {
  struct plain_layer {
    std::vector<float> weight;
    std::array<double, 2> bias;
  };
  struct net {
    std::vector<plain_layer> layers;
    float rate;
    plain_layer heads[2];
  };
  net model{{{{1, 2, 3}, {}}, {{}, {}}}, 0.5f, {}}, grads{{{{0, 0, 0}, {}}, {{}, {}}}, 0, {}};
  const auto all = gradsync::parameters_of(model, grads);
  REQUIRE(names_of(all) == names{"layers[0].weight", "layers[0].bias", "layers[1].weight", "layers[1].bias", "heads[0].weight",
                                 "heads[0].bias", "heads[1].weight", "heads[1].bias"});
  CHECK(all[0].grad().data == reinterpret_cast<std::byte*>(grads.layers[0].weight.data()));
  CHECK(all[0].value().data == reinterpret_cast<std::byte*>(model.layers[0].weight.data()));
  CHECK(all[7].aliases[0].grad == &grads.heads[1].bias);

  grads.layers.pop_back();
  CHECK(message_of([&] { gradsync::parameters_of(model, grads); }) ==
        "gradsync \"layers\": has 2 elements, its twin among the gradients another number; build both alike");
  CHECK(message_of([&] { gradsync::parameters_of(model, model); }) == "gradsync: model and gradients are one object; pass two");
}

TEST_CASE("lengths that differ, and a model without parameters, are errors that name the path") {
  struct net {
    std::vector<layer> layers;
  } model{{make_layer(1, 1), make_layer(2, 2)}};
  model.layers[1].bias.grad.resize(5);
  CHECK(message_of([&] { gradsync::parameters_of(model); }) ==
        "gradsync \"layers[1].bias\": the value has 2 elements, its gradient 5; give both the same length");
  net none;
  CHECK(message_of([&] { gradsync::parameters_of(none); }).find("the model has no parameter") != std::string::npos);
  const auto ignore = [](const gradsync::parameter&) {};
  CHECK(message_of([&] { gradsync::for_each_parameter(none, ignore); }).find("no parameter") != std::string::npos);
}

namespace {

class closed_net {
 public:
  explicit closed_net(std::size_t count) : first_(make_layer(1, count)), layers_(2) {}

 private:
  layer first_;
  std::vector<layer> layers_;
  std::unique_ptr<int> secret_;

 public:
  static constexpr auto parameters = gradsync::members<&closed_net::first_, &closed_net::layers_>;
};

struct base_net {
  param shared = make_param(1);
  static constexpr auto parameters = gradsync::members<&base_net::shared>;
};
struct derived_net : base_net {
  param own = make_param(2);
  static constexpr auto parameters = gradsync::members<&derived_net::shared, &derived_net::own>;
};
struct renamed_net : base_net {
  static constexpr auto parameters = gradsync::members_of<renamed_net, &renamed_net::shared>;
};

class friendly_net {
 public:
  explicit friendly_net(std::size_t depth) : layers_(depth) {
    for (auto& one : layers_) one = std::make_unique<layer>(make_layer(1, 1));
  }
  friend void visit_parameters(friendly_net& self, auto& visit) {
    for (std::size_t i = 0; i < self.layers_.size(); ++i) visit("block" + std::to_string(i), *self.layers_[i]);
  }

 private:
  std::vector<std::unique_ptr<layer>> layers_;
};
struct heir : friendly_net {
  param added = make_param(1);
  heir() : friendly_net(1) {}
  static constexpr auto parameters = gradsync::members<&heir::added>;
};

class plain_friend {
 public:
  friend void visit_parameters(plain_friend& self, auto& visit) {
    visit("w", self.weight_);
    visit("n", self.count_);
    visit("b", self.bias_);
  }
  std::vector<float> weight_{1, 2};
  std::array<double, 3> bias_{};

 private:
  int count_ = 0;
};

class plain_pile {
 public:
  explicit plain_pile(std::size_t depth) : sheets_(depth) {}
  friend void visit_parameters(plain_pile& self, auto& visit) {
    for (auto& sheet : self.sheets_) visit("sheet", sheet);
  }

 private:
  std::vector<std::vector<float>> sheets_;
};

}  // namespace

TEST_CASE("a class lists its private members, and a derived class has a list of its own") {
  struct net {
    closed_net inner{4};
    derived_net more;
    renamed_net other;
    base_net base;
  } model;
  CHECK(names_of(gradsync::parameters_of(model)) == names{"inner.first_.weight", "inner.first_.bias", "inner.layers_[0].weight",
                                                          "inner.layers_[0].bias", "inner.layers_[1].weight", "inner.layers_[1].bias",
                                                          "more.shared", "more.own", "other.shared", "base.shared"});
}

TEST_CASE("a friend visits what a list cannot express, and its base's friend is not mistaken for a class's own") {
  friendly_net model{2};
  CHECK(names_of(gradsync::parameters_of(model)) == names{"block0.weight", "block0.bias", "block1.weight", "block1.bias"});
  heir other;
  CHECK(names_of(gradsync::parameters_of(other)) == names{"added"});
  static_assert(gradsync::detail::has_friend<friendly_net> && !gradsync::detail::has_friend<heir>);
  static_assert(!gradsync::detail::has_friend<std::vector<friendly_net>>);
}

TEST_CASE("a friend pairs the members of two objects by position, and objects that differ are errors") {
  plain_friend model, grads;
  const auto all = gradsync::parameters_of(model, grads);
  REQUIRE(names_of(all) == names{"w", "b"});
  CHECK(all[0].aliases[0].grad == &grads.weight_);
  CHECK(all[1].aliases[0].grad == &grads.bias_);

  struct pile {
    std::vector<plain_pile> piles;
  };
  pile tall{{plain_pile(1), plain_pile(3)}}, low{{plain_pile(1), plain_pile(2)}};
  pile copy = tall;
  CHECK(gradsync::parameters_of(tall, copy).size() == 4);
  for (auto [model_pile, grads_pile] : {std::pair(&tall, &low), std::pair(&low, &tall)})
    CHECK(message_of([&, one = model_pile, other = grads_pile] { gradsync::parameters_of(*one, *other); }) ==
          "gradsync \"piles[1]\": its twin among the gradients has another number of members; build both alike");
}

namespace foreign {
class tensor {
 public:
  explicit tensor(std::size_t count) : memory_(2 * count) {}
  float* begin_of_value() { return memory_.data(); }
  float* begin_of_grad() { return memory_.data() + memory_.size() / 2; }
  std::size_t length() const { return memory_.size() / 2; }

 private:
  std::vector<float> memory_;
};
class block {
 public:
  tensor& weight() { return weight_; }
  tensor listed{2};

 private:
  tensor weight_{3};
};
struct listed_block : block {};
class vector {
 public:
  double* first() { return all_.data(); }

 private:
  std::array<double, 4> all_{};
};
}  // namespace foreign

template <>
struct gradsync::parameter_access<foreign::tensor> {
  static std::span<float> value(foreign::tensor& t) { return {t.begin_of_value(), t.length()}; }
  static std::span<float> grad(foreign::tensor& t) { return {t.begin_of_grad(), t.length()}; }
};
template <>
struct gradsync::parameter_access<foreign::block> {
  static void visit(foreign::block& b, auto& visit) { visit("weight", b.weight()); }
};
template <>
struct gradsync::parameter_access<foreign::listed_block> {
  static constexpr auto parameters = gradsync::members<&foreign::listed_block::listed>;
};
template <>
struct gradsync::parameter_access<foreign::vector> {
  static std::span<double> value(foreign::vector& v) { return {v.first(), 4}; }
};

TEST_CASE("a type of somebody else is opened by parameter_access") {
  struct net {
    foreign::block a;
    foreign::tensor b{5};
    foreign::listed_block c;
  } model;
  const auto all = gradsync::parameters_of(model);
  REQUIRE(names_of(all) == names{"a.weight", "b", "c.listed"});
  CHECK(all[1].count == 5);
  CHECK(all[1].grad().data == reinterpret_cast<std::byte*>(model.b.begin_of_grad()));
  CHECK(all[1].aliases[0].parameter == &model.b);

  struct pair {
    foreign::vector v;
    struct {
      foreign::vector value, grad;
    } p;
  };
  struct values {
    foreign::vector v;
  } left, right;
  CHECK(gradsync::parameters_of(left, right)[0].bytes() == 32);
  decltype(pair::p) both;
  CHECK(gradsync::parameters_of(both)[0].count == 4);
}

TEST_CASE("a tied parameter is one entry with all its names, and half a tie is an error") {
  struct view {
    std::span<float> value, grad;
  };
  struct net {
    view encoder, middle, decoder;
  };
  float values[6] = {}, grads[6] = {};
  const std::span<float> v(values), g(grads);
  net model{{v.first(4), g.first(4)}, {v.last(2), g.last(2)}, {v.first(4), g.first(4)}};
  const auto all = gradsync::parameters_of(model);
  REQUIRE(all.size() == 2);
  REQUIRE(all[0].aliases.size() == 2);
  CHECK(all[0].name() == "encoder");
  CHECK(all[0].aliases[1].name == "decoder");
  CHECK(all[0].aliases[1].parameter == &model.decoder);
  CHECK(all[1].name() == "middle");

  std::size_t visits = 0;
  gradsync::for_each_parameter(model, [&](const gradsync::parameter& p) { visits += p.aliases.size(); });
  CHECK(visits == 3);

  float other[4] = {};
  model.decoder.grad = other;
  CHECK(message_of([&] { gradsync::parameters_of(model); }) ==
        "gradsync \"decoder\": shares its value with \"encoder\", but not its gradient; let both names share the gradient too");
  model.encoder.grad = model.decoder.grad = {};
  CHECK(message_of([&] { gradsync::parameters_of(model); }).find("but not its gradient") != std::string::npos);
  model.decoder = {v.subspan(3, 2), std::span<float>(other).first(2)};
  CHECK(message_of([&] { gradsync::parameters_of(model); }).find("its value overlaps that of \"encoder\"") != std::string::npos);
  model = {{v.first(2), g.first(2)}, {v.last(2), g.last(2)}, {v.subspan(2, 2), g.subspan(1, 2)}};
  CHECK(message_of([&] { gradsync::parameters_of(model); }).find("its gradient overlaps that of \"encoder\"") != std::string::npos);
}

TEST_CASE("a mark means the parameters inside what is marked, in either form") {
  struct net {
    layer first;
    std::vector<layer> rest;
    int steps;
  } model{make_layer(1, 1), std::vector<layer>(2), 0};
  std::vector<const void*> marks;
  const auto note = [&](const void* address) { marks.push_back(address); };
  gradsync::for_each_mark(model.first.weight, note);
  gradsync::for_each_mark(model.first.weight.value, note);
  gradsync::for_each_mark(model.first.weight.grad, note);
  CHECK(marks == std::vector<const void*>{&model.first.weight, &model.first.weight.value, &model.first.weight.grad});
  marks.clear();
  gradsync::for_each_mark(model, note);
  CHECK(marks == std::vector<const void*>{&model.first.weight, &model.first.bias, &model.rest[0].weight, &model.rest[0].bias,
                                          &model.rest[1].weight, &model.rest[1].bias});
  struct plain {
    std::vector<float> weight, bias;
  } grads;
  marks.clear();
  gradsync::for_each_mark(grads, note);
  CHECK(marks == std::vector<const void*>{&grads.weight, &grads.bias});
}

TEST_CASE("every address that a mark yields is one of an alias, so marks find their parameter") {
  struct net {
    closed_net a{2};
    friendly_net b{2};
    foreign::block c;
    foreign::tensor d{1};
    layer e[2];
  } model;
  const auto all = gradsync::parameters_of(model);
  std::size_t marks = 0, found = 0;
  gradsync::for_each_mark(model, [&](const void* address) {
    ++marks;
    for (const auto& p : all)
      for (const auto& a : p.aliases) found += a.parameter == address;
  });
  CHECK(marks == all.size());
  CHECK(found == marks);
}

TEST_CASE("an aggregate of 32 members is opened") {
  struct wide {
    param p01, p02, p03, p04, p05, p06, p07, p08, p09, p10, p11, p12, p13, p14, p15, p16, p17, p18, p19, p20, p21, p22, p23, p24, p25, p26,
        p27, p28, p29, p30, p31, p32;
  } model;
  const auto all = gradsync::parameters_of(model);
  REQUIRE(all.size() == 32);
  CHECK(all[0].name() == "p01");
  CHECK(all[31].name() == "p32");
  CHECK(all[31].aliases[0].parameter == &model.p32);
}

TEST_CASE("a parameter beside a value and its gradient is not passed over") {
  struct inner {
    std::vector<float> value, grad;
  };
  struct outer {
    std::vector<float> value, grad;
    inner bias;
  };
  struct with_history {
    std::vector<float> value, grad, momentum;
  };
  struct with_name {
    std::vector<float> value, grad;
    std::string name;
    gradsync::skip<std::vector<float>> momentum;
  };
  struct outer_model {
    outer a;
  } one;
  CHECK_THROWS_WITH_AS(gradsync::parameters_of(one),
                       doctest::Contains("\"a\": a struct with a value and a gradient is one parameter, so its member `bias`"),
                       gradsync::usage_error);
  struct history_model {
    with_history a;
  } two;
  CHECK_THROWS_WITH_AS(gradsync::parameters_of(two), doctest::Contains("`momentum`"), gradsync::usage_error);
  struct named_model {
    with_name a;
  } three;
  CHECK(gradsync::parameters_of(three).size() == 1);
}

TEST_CASE("ten thousand parameters are listed at once, ties included") {
  struct view {
    std::span<float> value, grad;
  };
  struct many {
    std::vector<view> views;
  } net;
  std::vector<float> values(20'000), grads(20'000);
  for (std::size_t i = 0; i < 10'000; ++i) net.views.push_back({std::span(values).subspan(2 * i, 2), std::span(grads).subspan(2 * i, 2)});
  for (std::size_t i = 0; i < 10; ++i) net.views.push_back(net.views[17]);
  const auto all = gradsync::parameters_of(net);
  CHECK(all.size() == 10'000);
  CHECK(all[17].aliases.size() == 11);
  CHECK(all[17].aliases[10].name == "views[10009]");
}
