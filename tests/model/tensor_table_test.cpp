// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

#include "gradsync/model/tensor_table.hpp"

#include <doctest/doctest.h>

#include <array>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "gradsync/bucket/storage.hpp"
#include "gradsync/model/for_each_parameter.hpp"
#include "tests/model/names.hpp"

using namespace gradsync;

namespace {

// As in llm.c.
struct tensors {
  float *wte, *wpe, *bias;
};
struct gpt {
  tensors params{}, grads{};
  std::size_t sizes[3] = {100, 20, 3};
  std::vector<float> params_memory = std::vector<float>(123), grads_memory = std::vector<float>(123);

  gpt() {
    point(params, params_memory);
    point(grads, grads_memory);
  }
  void point(tensors& t, std::vector<float>& arena) const {
    t = {arena.data(), arena.data() + sizes[0], arena.data() + sizes[0] + sizes[1]};
  }
};

using test::names, test::names_of;

std::byte* bytes(float* x) { return reinterpret_cast<std::byte*>(x); }

template <class T>
std::vector<const void*> marks_of(const T& x) {
  std::vector<const void*> marks;
  for_each_mark(x, [&](const void* address) { marks.push_back(address); });
  return marks;
}

bool means(const void* address, const parameter& p) {
  const alias& a = p.aliases.front();
  return address == a.parameter || address == a.value || address == a.grad;
}

}  // namespace

TEST_CASE("two structs of pointers and a list of counts are a model, read afresh, and marked by the pointers") {
  gpt model;
  tensor_table table{model.params, model.grads, model.sizes};
  static_assert(std::is_same_v<decltype(table), tensor_table<float>>);
  const auto all = parameters_of(table);
  REQUIRE(names_of(all) == names{"wte", "wpe", "bias"});
  CHECK(all[1].count == 20);
  CHECK(all[1].value().data == bytes(model.params.wpe));
  CHECK(all[1].value().count == 20);
  CHECK(all[1].grad().data == bytes(model.grads.wpe));
  for (const auto& marks :
       {marks_of(model.grads.wpe), marks_of(model.params.wpe), marks_of(table["wpe"]), marks_of(table[model.grads.wpe])}) {
    REQUIRE(marks.size() == 1);
    CHECK(means(marks[0], all[1]));
    CHECK_FALSE(means(marks[0], all[0]));
  }
  CHECK(marks_of(table).size() == 3);

  std::vector<float> elsewhere(123);
  model.point(model.grads, elsewhere);
  CHECK(all[2].grad().data == bytes(elsewhere.data() + 120));
  CHECK(all[2].grad().count == 3);
}

TEST_CASE("gradients that are not allocated yet are empty") {
  gpt model;
  model.grads = {};
  tensor_table table{model.params, model.grads, model.sizes};
  const auto all = parameters_of(table);
  CHECK(all[0].grad().count == 0);
  CHECK_FALSE(all[0].resize_grad());
  model.point(model.grads, model.grads_memory);
  CHECK(all[0].grad().count == 100);
}

TEST_CASE("a list of pointers is a model") {
  double a[3] = {}, b[3] = {};
  double *value = a, *grad = b;
  tensor_table<double> table{{{"scale", &value, &grad, 3}}};
  const auto all = parameters_of(table);
  REQUIRE(names_of(all) == names{"scale"});
  CHECK(all[0].type == dtype::float64);
  CHECK(all[0].bytes() == 24);
  CHECK(means(marks_of(grad)[0], all[0]));
}

TEST_CASE("an arena with a list of names and counts is a model, padding has no name") {
  std::vector<double> values(32), grads(32);
  tensor_table table{values, grads, {{"w", 10}, {"", 6}, {"b", 16}}};
  static_assert(std::is_same_v<decltype(table), tensor_table<double>>);
  const auto all = parameters_of(table);
  REQUIRE(names_of(all) == names{"w", "b"});
  CHECK(all[1].value().data == reinterpret_cast<std::byte*>(values.data() + 16));
  CHECK(all[1].grad().data == reinterpret_cast<std::byte*>(grads.data() + 16));
  CHECK(all[1].grad().count == 16);
  CHECK(means(marks_of(table["b"])[0], all[1]));
  grads = {};
  CHECK(all[1].grad().count == 0);
  grads.resize(20);  // too short for it now
  CHECK(all[0].grad().count == 10);
  CHECK(all[1].grad().count == 0);

  std::array<float, 4> fixed{}, fixed_grads{};
  std::span<float> view = fixed_grads;
  tensor_table mixed{fixed, view, {{"w", 4}}};
  CHECK(parameters_of(mixed)[0].grad().data == bytes(fixed_grads.data()));
}

TEST_CASE("a large tensor becomes several parameters, which one mark marks") {
  gpt model;
  tensor_table table{model.params, model.grads, model.sizes, {.part_bytes = 150}};  // 37 floats: 32, on lines of 64 bytes
  const auto all = parameters_of(table);
  REQUIRE(names_of(all) == names{"wte[0]", "wte[1]", "wte[2]", "wte[3]", "wpe", "bias"});
  CHECK(all[0].count == 32);
  CHECK(all[3].count == 4);
  CHECK(all[3].value().data == bytes(model.params.wte + 96));
  CHECK(all[3].grad().data == bytes(model.grads.wte + 96));
  const auto marks = marks_of(table[model.grads.wte]);
  REQUIRE(marks.size() == 4);
  for (std::size_t i = 0; i < 4; ++i) CHECK(means(marks[i], all[i]));
  for (const auto& p : all) CHECK_FALSE(means(&model.params.wte, p));  // a mark of one part alone would be wrong
  CHECK(marks_of(table["wpe"]).size() == 1);
}

TEST_CASE("tensors of an arena are adopted where they lie") {
  gpt model;
  tensor_table table{model.params, model.grads, model.sizes, {.part_bytes = 128}};
  const auto parameters = parameters_of(table);
  const bucket_plan plan = make_plan(parameters, {.bucket_bytes = 256, .first_bucket_bytes = 128});
  CHECK(plan.buckets.size() == 3);
  const bucket_storage storage(plan, parameters, layout::adopted);
  CHECK(storage.bytes() == 0);
  std::size_t count = 0;
  for (std::size_t b = 0; b < plan.buckets.size(); ++b) count += storage.view(b).count();
  CHECK(count == 123);
}

TEST_CASE("what is wrong is said") {
  gpt model;
  const std::size_t two[] = {100, 20};
  CHECK_THROWS_WITH_AS((tensor_table{model.params, model.grads, two}),
                       "gradsync: the struct has 3 pointers, the list of counts 2 entries; give one count for each pointer, in order",
                       usage_error);
  const std::size_t long_counts[] = {100, 24, 3};
  tensor_table overlapping{model.params, model.grads, long_counts};
  CHECK_THROWS_WITH_AS(parameters_of(overlapping), doctest::Contains("\"bias\": its value overlaps that of \"wpe\""), usage_error);
  const auto arena = [](std::size_t values_count, std::size_t grads_count) {
    std::vector<float> values(values_count), grads(grads_count);
    return tensor_table{values, grads, {{"w", 10}, {"b", 6}}};
  };
  CHECK_THROWS_WITH_AS(
      arena(15, 15),
      "gradsync: the tensors take 16 elements, the arena of the values has 15; list every tensor, and padding without a name", usage_error);
  CHECK_THROWS_WITH_AS(arena(17, 17), doctest::Contains("the arena of the values has 17"), usage_error);
  CHECK_THROWS_WITH_AS(arena(16, 12), doctest::Contains("the arena of the gradients has 12"), usage_error);
  CHECK_NOTHROW(arena(16, 0));
  tensor_table table{model.params, model.grads, model.sizes};
  CHECK_THROWS_WITH_AS(table["wtf"], "gradsync: there is no tensor \"wtf\" in this table", usage_error);
  float* const copy = model.grads.wte;
  CHECK_THROWS_WITH_AS(table[copy], doctest::Contains("give the member itself, not a copy"), usage_error);
  model.params.wpe = nullptr;
  CHECK_THROWS_WITH_AS((tensor_table{model.params, model.grads, model.sizes}),
                       "gradsync \"wpe\": its value is a null pointer; allocate the tensors before the table is made", usage_error);
}
