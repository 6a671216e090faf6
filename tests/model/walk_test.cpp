// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

#include "gradsync/model/walk.hpp"

#include <doctest/doctest.h>

#include <array>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "gradsync/model/for_each_parameter.hpp"
#include "tests/model/names.hpp"

using gradsync::detail::path;

namespace {

struct pair {
  std::vector<float> value, grad;
};
struct layer {
  pair weight, bias;
};

// Writes down where a walk comes by.
struct paths {
  std::vector<std::string> seen;
  template <class T>
  void operator()(const path& at, T&) {
    seen.push_back(at.text());
  }
};

}  // namespace

TEST_CASE("a walk goes through members and elements in order, and knows where it is") {
  struct net {
    std::vector<layer> layers;
    int step = 0;
    pair heads[2];
  } model{std::vector<layer>(2), 7, {}};
  paths found;
  gradsync::detail::walk(found, {}, model);
  CHECK(found.seen ==
        std::vector<std::string>{"layers[0].weight", "layers[0].bias", "layers[1].weight", "layers[1].bias", "heads[0]", "heads[1]"});
}

namespace {

using test::names, test::names_in;

template <class T>
std::size_t count_of(T& model) {
  std::size_t count = 0;
  gradsync::for_each_mark(model, [&](const void*) { ++count; });
  return count;
}

layer make_layer() { return {{{1, 2}, {}}, {{3}, {}}}; }

}  // namespace

TEST_CASE("what a smart pointer points to is part of the model, a null pointer is nothing, and what is shared is tied") {
  struct net {
    std::unique_ptr<layer> first;
    std::vector<std::shared_ptr<pair>> rest;
    std::unique_ptr<int> steps;
  } model{std::make_unique<layer>(make_layer()), {std::make_shared<pair>(pair{{1}, {}}), nullptr}, nullptr};
  model.rest.push_back(model.rest[0]);
  const auto all = gradsync::parameters_of(model);
  CHECK(names_in(model) == names{"first.weight", "first.bias", "rest[0]", "rest[2]"});
  REQUIRE(all.size() == 3);
  CHECK(all[2].aliases.size() == 2);
  CHECK(all[0].aliases[0].parameter == &model.first->weight);
  CHECK(count_of(model.first) == 2);
  CHECK(count_of(model) == 4);
}

TEST_CASE("optionals, variants, tuples and pairs hold layers, and the alternative that is held counts") {
  struct net {
    std::optional<layer> extra;
    std::variant<std::monostate, pair, layer> kind;
    std::tuple<pair, int, std::vector<pair>> both;
    std::pair<pair, float> named;
  } model;
  CHECK(names_in(model) == names{"both[0]", "named.first"});
  model.extra = make_layer();
  model.kind = pair{{1}, {}};
  std::get<2>(model.both).resize(1);
  CHECK(names_in(model) == names{"extra.weight", "extra.bias", "kind", "both[0]", "both[2][0]", "named.first"});
  model.kind = make_layer();
  CHECK(names_in(model) == names{"extra.weight", "extra.bias", "kind.weight", "kind.bias", "both[0]", "both[2][0]", "named.first"});
  CHECK(count_of(model.kind) == 2);
  const void* marked = nullptr;
  gradsync::for_each_mark(model.named, [&](const void* address) { marked = address; });
  CHECK(marked == &model.named.first);
}

TEST_CASE("layers in a map are named by their keys") {
  struct point {
    int x = 0;
    bool operator<(const point& other) const { return x < other.x; }
  };
  struct net {
    std::map<std::string, layer> blocks;
    std::map<int, pair> heads;
    std::map<point, pair> places;
    std::map<std::string, int> settings;
  } model{{{"encoder", make_layer()}, {"decoder", make_layer()}}, {{-3, {}}, {7, {}}}, {{{5}, {}}, {{6}, {}}}, {{"depth", 2}}};
  CHECK(names_in(model) == names{"blocks.decoder.weight", "blocks.decoder.bias", "blocks.encoder.weight", "blocks.encoder.bias",
                                 "heads[-3]", "heads[7]", "places[0]", "places[1]"});
  CHECK(count_of(model.blocks.at("encoder")) == 2);
}

TEST_CASE("containers need no index") {
  struct net {
    std::list<pair> list;
    std::deque<pair> deque;
  } model{std::list<pair>(2), std::deque<pair>(1)};
  CHECK(names_in(model) == names{"list[0]", "list[1]", "deque[0]"});
}

TEST_CASE("twins are built alike, in whatever holds them") {
  using floats = std::vector<float>;
  struct net {
    std::unique_ptr<floats> pointer = std::make_unique<floats>(1);
    std::optional<floats> optional = floats(2);
    std::variant<floats, std::array<float, 3>> variant;
    std::tuple<floats, int> tuple{4, 0};
    std::map<int, floats> map{{1, floats(5)}};
    std::list<floats> list{floats(6)};
  } model, grads;
  const auto all = gradsync::parameters_of(model, grads);
  REQUIRE(all.size() == 6);
  CHECK(all[0].aliases[0].grad == grads.pointer.get());
  CHECK(all[1].aliases[0].grad == &*grads.optional);
  CHECK(all[2].aliases[0].grad == &std::get<0>(grads.variant));
  CHECK(all[3].aliases[0].grad == &std::get<0>(grads.tuple));
  CHECK(all[4].aliases[0].grad == &grads.map.at(1));
  CHECK(all[5].aliases[0].grad == &grads.list.front());

  const auto refused = [&](const char* message, auto change) {
    net other;
    change(other);
    CHECK_THROWS_WITH_AS(gradsync::parameters_of(model, other), message, gradsync::usage_error);
    CHECK_THROWS_AS(gradsync::parameters_of(other, model), gradsync::usage_error);
  };
  refused("gradsync \"pointer\": one of its twins, value and gradient, is a null pointer; build both alike",
          [](net& n) { n.pointer.reset(); });
  refused("gradsync \"optional\": one of its twins, value and gradient, is empty; build both alike", [](net& n) { n.optional.reset(); });
  refused("gradsync \"variant\": its twin among the gradients holds another alternative; build both alike",
          [](net& n) { n.variant.emplace<1>(); });
  refused("gradsync \"map\": its twin among the gradients has other keys; build both alike", [](net& n) { n.map = {{2, floats(5)}}; });
  refused("gradsync \"list\": has 1 elements, its twin among the gradients another number; build both alike",
          [](net& n) { n.list.clear(); });
}

namespace {

struct node {
  pair weight;
  std::shared_ptr<node> next;
};

}  // namespace

TEST_CASE("a chain of pointers is followed, and a circle is an error") {
  node first{{{1}, {}}, std::make_shared<node>()};
  CHECK(names_in(first) == names{"weight", "next.weight"});
  first.next->next = first.next;
  CHECK_THROWS_WITH_AS(gradsync::parameters_of(first), doctest::Contains("break the circle of pointers"), gradsync::usage_error);
  first.next->next.reset();
}

namespace {

class base {
 public:
  virtual ~base() = default;
  pair weight;
  static constexpr auto parameters = gradsync::members<&base::weight>;
};
class derived : public base {
 public:
  pair bias;
  static constexpr auto parameters = gradsync::members<&derived::weight, &derived::bias>;
};

}  // namespace

TEST_CASE("an object of a derived class is not taken for its base") {
  derived whole;
  CHECK(names_in(whole) == names{"weight", "bias"});
  struct net {
    std::unique_ptr<base> layer = std::make_unique<base>();
  } model;
  CHECK(names_in(model) == names{"layer.weight"});
  model.layer = std::make_unique<derived>();
  CHECK_THROWS_WITH_AS(gradsync::parameters_of(model), doctest::Contains("\"layer\": is of a derived class, whose own parameters"),
                       gradsync::usage_error);
}
