// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

#include "gradsync/model/make_parameter.hpp"

#include <doctest/doctest.h>

#include <span>
#include <vector>

using namespace gradsync::detail;

namespace {

struct param {
  std::vector<float> value, grad;
};
struct on_device {
  float* first = nullptr;
};
// As an adapter's: only the object knows its element type.
struct dynamic {
  bool wide = true;
  double wide_value[2] = {1, 2}, wide_grad[2] = {};
};

}  // namespace

template <>
struct gradsync::parameter_access<on_device> {
  static constexpr auto space = gradsync::memory_space::cuda;
  static std::span<float> value(on_device& x) { return {x.first, 4}; }
  static std::span<float> grad(on_device& x) { return {x.first + 4, 4}; }
};
template <>
struct gradsync::parameter_access<dynamic> {
  static gradsync::parameter describe(dynamic& x) {
    const auto value = [](void* object) -> gradsync::memory {
      return {reinterpret_cast<std::byte*>(static_cast<dynamic*>(object)->wide_value), 2};
    };
    const auto grad = [](void* object) -> gradsync::memory {
      return {reinterpret_cast<std::byte*>(static_cast<dynamic*>(object)->wide_grad), 2};
    };
    return {.type = x.wide ? gradsync::dtype::float64 : gradsync::dtype::float32,
            .count = 2,
            .value_access = {.read = value},
            .grad_access = {.read = grad},
            .aliases = {{"", &x, &x, &x}}};
  }
};

TEST_CASE("entries are made of an object with both, of an object and its twin, and of one that describes itself") {
  const path top, at{&top, "w"};
  param both{{1, 2, 3}, {}};
  const auto one = make_parameter(at, both);
  CHECK(one.name() == "w");
  CHECK(one.count == 3);
  CHECK(one.aliases[0].parameter == &both);
  CHECK(one.space == gradsync::memory_space::host);
  std::vector<double> value(2), grad(2);
  const auto two = make_parameter(at, value, grad);
  CHECK(two.type == gradsync::dtype::float64);
  CHECK(two.aliases[0].parameter == &value);
  CHECK(two.aliases[0].grad == &grad);
  dynamic x;
  const auto three = make_parameter(at, x);
  CHECK(shape_of<dynamic> == shape::described);
  CHECK(three.name() == "w");
  CHECK(three.bytes() == 16);
  CHECK(three.grad().data == reinterpret_cast<std::byte*>(x.wide_grad));
  const auto state = make_state(at, x);
  CHECK(state.type == gradsync::dtype::float64);
  CHECK(state.value().data == reinterpret_cast<std::byte*>(x.wide_value));
}

TEST_CASE("an adapter says that its elements lie on a device") {
  float memory[8] = {};
  on_device x{memory};
  CHECK(make_parameter(path{}, x).space == gradsync::memory_space::cuda);
  CHECK(make_state(path{}, x).space == gradsync::memory_space::cuda);
  struct {
    on_device value, grad;
  } apart{{memory}, {memory + 4}};
  CHECK(make_parameter(path{}, apart).space == gradsync::memory_space::cuda);
}

TEST_CASE("lengths that differ are errors") {
  const path top, at{&top, "w"};
  param both{{1, 2, 3}, {1}};
  CHECK_THROWS_WITH_AS(make_parameter(at, both), "gradsync \"w\": the value has 3 elements, its gradient 1; give both the same length",
                       gradsync::usage_error);
}
