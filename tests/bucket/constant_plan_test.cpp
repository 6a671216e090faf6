// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

#include "gradsync/bucket/constant_plan.hpp"

#include <doctest/doctest.h>

#include <array>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "gradsync/bucket/storage.hpp"
#include "gradsync/model/for_each_parameter.hpp"
#include "gradsync/sync/accumulation.hpp"

using namespace gradsync;

namespace {

template <std::size_t N, class T = float>
struct param {
  std::array<T, N> value{}, grad{};
};
template <std::size_t In, std::size_t Out>
struct linear {
  param<In * Out> weight;
  param<Out> bias;
  float rate = 0.1f;
  std::string name;
};

// As Eigen's matrices of fixed size are, without Eigen.
struct matrix {
  enum { SizeAtCompileTime = 6 };
  float elements[6] = {};
  float* data() { return elements; }
  std::size_t size() const { return 6; }
};

class listed {
  param<5> first_;
  int steps_ = 0;
  param<7, double> second_;

 public:
  int steps() const { return steps_; }
  static constexpr auto parameters = members<&listed::second_, &listed::first_>;
};

struct net {
  linear<20, 10> first;
  std::array<linear<4, 4>, 3> hidden;
  linear<2, 3> heads[2];
  std::tuple<param<11>, int> both;
  listed own;
  struct {
    matrix value, grad;
  } fixed;
  state<std::array<float, 100>> mean;
};

// The same numbers, but of objects.
template <class Constant>
void check_equal(const Constant& constant, const bucket_plan& plan) {
  REQUIRE(constant.size == plan.buckets.size());
  REQUIRE(constant.bucket_of.size() == plan.bucket_of.size());
  for (std::size_t b = 0; b < plan.buckets.size(); ++b) {
    CHECK(constant.buckets[b].type == plan.buckets[b].type);
    CHECK(constant.buckets[b].bytes() == plan.buckets[b].bytes());
    CHECK(constant.buckets[b].padded_count == plan.buckets[b].padded_count);
  }
  for (std::size_t i = 0; i < plan.bucket_of.size(); ++i) {
    CHECK(constant.bucket_of[i] == plan.bucket_of[i]);
    CHECK(constant.slots[i] == plan.buckets[plan.bucket_of[i]].slots[plan.slot_of[i]]);
  }
}

}  // namespace

TEST_CASE("a constant plan cuts as the plan of an object does") {
  net model;
  const auto parameters = parameters_of(model);
  constexpr auto usual = constant_plan<net>();
  check_equal(usual, make_plan(parameters));
  constexpr plan_options tight{.bucket_bytes = 200, .first_bucket_bytes = 64};
  constexpr auto many = constant_plan<net>(tight);
  static_assert(many.size > 3);
  check_equal(many, make_plan(parameters, tight));
  constexpr plan_options none{.bucket_bytes = 0};
  constexpr auto single = constant_plan<net>(none);
  static_assert(single.size == 16);
  check_equal(single, make_plan(parameters, none));
}

TEST_CASE("a model whose gradients are a second object has a constant plan too") {
  struct plain {
    std::array<float, 3> weight{};
    std::array<double, 4> scale{};
    std::array<float, 5> bias{};
  } model, grads;
  constexpr auto plan = constant_plan<plain>();
  static_assert(plan.size == 2);
  check_equal(plan, make_plan(parameters_of(model, grads)));
}

TEST_CASE("what a replica costs is known to the compiler") {
  net model;
  const auto parameters = parameters_of(model);
  std::size_t values = 0;
  for (const parameter& p : parameters) values += p.bytes();
  static_assert(replica_bytes<net>() == 2 * (4 * (200 + 10 + 3 * 20 + 2 * 9 + 11 + 5 + 6) + 8 * 7));
  CHECK(replica_bytes<net>() == 2 * values);
  CHECK(replica_bytes<net>({.optimizer_arrays = 2}) == 4 * values);

  constexpr plan_options tight{.bucket_bytes = 200, .first_bucket_bytes = 64};
  const bucket_plan plan = make_plan(parameters, tight);
  const bucket_storage storage(plan, parameters, layout::packed);
  CHECK(replica_bytes<net>({.plan = tight, .layout = layout::packed}) == 2 * values + storage.bytes());
}

namespace {

template <std::size_t MicroSteps>
void check_partial_sums() {
  net model;
  const auto parameters = parameters_of(model);
  accumulation sums(parameters);
  for (std::size_t step = 1; step < MicroSteps; ++step) {
    sums.reserve([](std::size_t bytes) { return aligned_bytes(bytes); });
    sums.count(1);
  }
  CHECK(replica_bytes<net>({.micro_steps = MicroSteps}) - replica_bytes<net>() == sums.bytes());
}

}  // namespace

TEST_CASE("the partial sums of a constant plan are those that accumulation makes") {
  check_partial_sums<1>();
  check_partial_sums<2>();
  check_partial_sums<3>();
  check_partial_sums<4>();
  check_partial_sums<5>();
  check_partial_sums<9>();
}
