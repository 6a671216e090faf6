// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

#include "gradsync/model/parameter.hpp"

#include <doctest/doctest.h>

#include <vector>

#include "gradsync/model/for_each_parameter.hpp"

namespace {

struct pair {
  std::vector<double> value, grad;
};
struct net {
  pair a;
};

}  // namespace

TEST_CASE("value and gradient are read afresh, wherever they are by then") {
  net model{{std::vector<double>(5), {}}};
  const gradsync::parameter p = gradsync::parameters_of(model).front();
  CHECK(p.name() == "a");
  CHECK(p.count == 5);
  CHECK(p.bytes() == 40);
  CHECK(p.value().data == reinterpret_cast<std::byte*>(model.a.value.data()));
  CHECK(p.grad().count == 0);
  model.a.grad = std::vector<double>(5, 2.0);
  CHECK(p.grad().data == reinterpret_cast<std::byte*>(model.a.grad.data()));
  CHECK(p.grad().count == 5);
}

TEST_CASE("an empty gradient takes the length of its value, where its type can") {
  net model{{std::vector<double>(5), {}}};
  const gradsync::parameter p = gradsync::parameters_of(model).front();
  CHECK(p.resize_grad());
  CHECK(model.a.grad.size() == 5);

  gradsync::parameter fixed = p;
  fixed.grad_access.resize = nullptr;
  model.a.grad.clear();
  CHECK_FALSE(fixed.resize_grad());
  CHECK(model.a.grad.empty());
}
