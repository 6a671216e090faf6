// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0
#include "gradsync/guard/watched_model.hpp"

#include <doctest/doctest.h>

#include <array>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

using namespace gradsync;

namespace {

struct param {
  std::vector<float> value, grad;
};
struct layer {
  param weight, bias;
};
struct net_type {
  std::vector<layer> layers;
  param head;
};

param of(std::size_t n) { return {std::vector<float>(n), {}}; }
net_type three_layers() {
  net_type net{{}, of(5)};
  for (int l = 0; l < 3; ++l) net.layers.push_back({of(3), of(2)});
  net.layers.shrink_to_fit();
  return net;
}

// A model whose hook shows what it owns at the moment.
struct owning {
  std::unique_ptr<param> first, second;
  friend void visit_parameters(owning& self, auto& visit) {
    if (self.first) visit("first", *self.first);
    if (self.second) visit("second", *self.second);
  }
};

template <class Model>
void refused(const watched_model<Model>& watched, const std::string& parameter, const std::string& what) {
  const std::string text = "gradsync \"" + parameter + "\": " + what +
                           " since the synchronizer was made; parameters may not come, go, move or change their size while it lives: make "
                           "another one afterwards";
  CHECK_THROWS_WITH_AS(watched.check(), text.c_str(), usage_error);
}

}  // namespace

TEST_CASE("a model that trains is what it was: values and gradients may be assigned, and gradients be absent") {
  net_type net = three_layers();
  const watched_model watched(net);
  CHECK(watched.parameters().size() == 7);
  for (int step = 0; step < 3; ++step) {
    CHECK_NOTHROW(watched.check());
    net.layers[1].weight.value = std::vector<float>(3, 1.0f);
    net.layers[1].weight.grad.assign(3, 1.0f);
    net.head.grad.clear();
  }
  CHECK(watched.list_now().size() == 7);
}

TEST_CASE("what has gone is named, and not looked at") {
  net_type net = three_layers();
  const watched_model watched(net);
  net.layers.pop_back();
  refused(watched, "layers[2].weight", "has gone");
  net.layers.clear();
  net.layers.shrink_to_fit();
  refused(watched, "layers[0].weight", "has gone");

  owning other{std::make_unique<param>(of(3)), std::make_unique<param>(of(4))};
  const watched_model watched_other(other);
  other.second.reset();
  refused(watched_other, "second", "has gone");
  other.first.reset();
  refused(watched_other, "first", "has gone");  // nothing is left
}

TEST_CASE("what has come is named, also where all others had to move for it") {
  net_type net = three_layers();
  const watched_model watched(net);
  net.layers.push_back({of(3), of(2)});
  refused(watched, "layers[3].weight", "has come");

  owning other{std::make_unique<param>(of(3)), nullptr};
  const watched_model watched_other(other);
  other.second = std::make_unique<param>(of(3));
  refused(watched_other, "second", "has come");
}

TEST_CASE("what has moved is named") {
  net_type net = three_layers();
  const watched_model watched(net);
  net.layers.reserve(100);
  refused(watched, "layers[0].weight", "has moved");

  owning other{std::make_unique<param>(of(3)), std::make_unique<param>(of(4))};
  const watched_model watched_other(other);
  std::unique_ptr<param> kept = std::move(other.second);
  other.second = std::make_unique<param>(of(4));
  refused(watched_other, "second", "has moved");
  other.second = std::move(kept);
  CHECK_NOTHROW(watched_other.check());
  std::swap(other.first, other.second);
  refused(watched_other, "first", "has moved");
}

TEST_CASE("a value of another size is named with both, so a model that was moved from is found too") {
  net_type net = three_layers();
  const watched_model watched(net);
  net.layers[1].bias.value.resize(20);
  refused(watched, "layers[1].bias", "has changed from 2 elements to 20");
  net.layers[1].bias.value.resize(2);
  const net_type moved = std::move(net);
  refused(watched, "layers[0].weight", "has gone");

  layer one{of(3), of(2)};
  const watched_model watched_one(one);
  const layer elsewhere = std::move(one);
  refused(watched_one, "weight", "has changed from 3 elements to 0");
}

TEST_CASE("gradients in a second object are watched like values") {
  struct values {
    std::vector<std::vector<float>> tensors;
  };
  values net{{std::vector<float>(3), std::vector<float>(4)}}, grads = net;
  const watched_model watched(net, grads);
  CHECK(watched.parameters().size() == 2);
  CHECK_NOTHROW(watched.check());
  CHECK(watched.list_now().size() == 2);
  CHECK(watched.list_if_possible().size() == 2);
  grads.tensors.reserve(100);
  refused(watched, "tensors[0]", "has moved");
  net.tensors.pop_back();
  CHECK_THROWS_WITH_AS(watched.check(), doctest::Contains("its twin among the gradients"), usage_error);
  grads.tensors.pop_back();
  refused(watched, "tensors[1]", "has gone");
}

TEST_CASE("a tied parameter is watched under each of its names") {
  struct view {
    std::span<float> value, grad;
  };
  struct tied {
    std::vector<view> views;
  };
  std::vector<float> value(8), grad(8);
  tied net{{{value, grad}, {value, grad}}};
  const watched_model watched(net);
  CHECK(watched.parameters().size() == 1);
  CHECK_NOTHROW(watched.check());
  net.views.pop_back();
  refused(watched, "views[1]", "has gone");
}

TEST_CASE("a variant that holds another alternative is found, by its names or by what they stand for") {
  struct dense {
    param weight, bias;
  };
  struct conv {
    param kernel;
  };
  struct fixed {
    struct {
      std::array<float, 6> value, grad;  // as large as two std::vectors, so only the type tells
    } kernel;
  };
  struct net_of_variants {
    std::variant<dense, conv, fixed> first;
    std::optional<param> second;
  };
  net_of_variants net{dense{of(3), of(2)}, of(4)};
  const watched_model watched(net);
  CHECK_NOTHROW(watched.check());
  net.first = conv{of(3)};
  refused(watched, "first.weight", "has gone");
  net.first = dense{of(3), of(2)};
  CHECK_NOTHROW(watched.check());
  net.second.reset();
  refused(watched, "second", "has gone");
  net.second = of(4);

  net.first = conv{of(6)};
  const watched_model watched_conv(net);
  net.first = fixed{};
  CHECK_THROWS_WITH_AS(watched_conv.check(), doctest::Contains("is of another type, or"), usage_error);
}

TEST_CASE("a polymorphic layer that was replaced by another is found") {
  struct layer_base {
    virtual ~layer_base() = default;
    virtual void visit_parameters(parameter_visitor& visit) = 0;
  };
  struct relu : layer_base {
    void visit_parameters(parameter_visitor& visit) override { visit.members_of(*this); }
  };
  struct linear : layer_base {
    param weight = of(3);
    void visit_parameters(parameter_visitor& visit) override { visit.members_of (*this)("weight", weight); }
  };
  std::vector<std::unique_ptr<layer_base>> net;
  net.push_back(std::make_unique<linear>());
  net.push_back(std::make_unique<linear>());
  const watched_model watched(net);
  CHECK_NOTHROW(watched.check());
  net.push_back(std::make_unique<relu>());  // the layers are where they were
  CHECK_NOTHROW(watched.check());
  const std::unique_ptr<layer_base> gone = std::exchange(net[1], std::make_unique<relu>());  // kept: its memory is not given out again
  refused(watched, "[1].weight", "has gone");
  net[2] = std::make_unique<linear>();
  refused(watched, "[1].weight", "has gone");
}

TEST_CASE("what has no parameter cannot be watched") {
  net_type net{{}, of(1)};
  std::vector<net_type> none;
  CHECK_THROWS_AS(watched_model{none}, usage_error);
  CHECK_NOTHROW(watched_model{net});
}
