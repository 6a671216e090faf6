// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0
#include "gradsync/bucket/storage.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <deque>

#include "gradsync/core/host_stream.hpp"
#include "tests/bucket/models.hpp"

using namespace gradsync;

namespace {

using owner = std::vector<float>;
using view = std::span<float>;

template <class T>
memory read(void* object) {
  T& x = *static_cast<T*>(object);
  return {reinterpret_cast<std::byte*>(x.data()), x.size()};
}
void point(void* object, std::byte* data, std::size_t count) { *static_cast<view*>(object) = {reinterpret_cast<float*>(data), count}; }

// Parameters p0, p1, … whose gradients are the given objects.
template <class T>
series<parameter> parameters_with(std::deque<T>& grads, const std::vector<std::size_t>& counts) {
  std::vector<test::shape> shapes;
  for (const std::size_t count : counts) shapes.push_back({count});
  auto all = test::parameters_of_shapes(shapes);
  for (std::size_t i = 0; i < all.size(); ++i) {
    all[i].aliases.front().grad = &grads[i];
    all[i].grad_access.read = read<T>;
    if constexpr (std::is_same_v<T, view>) all[i].grad_access.point = point;
  }
  return all;
}

std::vector<float> elements(const buffer_view& v) {
  std::vector<float> all;
  for (const extent& e : v.extents) {
    const auto* data = reinterpret_cast<const float*>(e.data);
    CHECK(e.first == all.size());
    all.insert(all.end(), data, data + e.count);
  }
  return all;
}

std::size_t offset(const memory& home, const buffer_view& v) {
  return static_cast<std::size_t>(reinterpret_cast<float*>(home.data) - reinterpret_cast<float*>(v.extents.front().data));
}

const plan_options small = {.bucket_bytes = 80, .first_bucket_bytes = 80};  // 20 floats

}  // namespace

TEST_CASE("in place a bucket is a list of the user's own gradients, wherever they are in this update") {
  std::deque<owner> grads = {owner(7, 1), owner(), owner(10, 2), owner(15, 3)};
  const auto parameters = parameters_with(grads, {7, 0, 10, 15});
  const bucket_plan plan = make_plan(parameters, small);
  bucket_storage storage(plan, parameters, layout::in_place);
  CHECK(storage.how() == layout::in_place);
  CHECK(storage.bytes() == 0);
  for (int update = 0; update < 3; ++update) {
    for (std::size_t i = 4; i-- > 0;) {
      grads[i] = owner(grads[i].size(), static_cast<float>(10 * update) + static_cast<float>(i));  // elsewhere, as `grad = …` would
      const memory home = storage.place(i, parameters[i].grad());
      CHECK((home.data == parameters[i].grad().data && home.count == grads[i].size()));
    }
    const buffer_view last = storage.view(0), rest = storage.view(1);
    CHECK((last.count() == 15 && rest.count() == 17 && rest.extents.size() == 3));
    CHECK(last.type == dtype::float32);
    CHECK(reinterpret_cast<float*>(last.extents[0].data) == grads[3].data());
    const float base = static_cast<float>(10 * update);
    owner expected(7, base);
    expected.insert(expected.end(), 10, base + 2);
    CHECK(elements(rest) == expected);
    host_stream s;
    storage.unpack(s, 0);  // they are where they belong
    CHECK(grads[3] == owner(15, base + 3));
  }
}

TEST_CASE("packed, a bucket is one stretch of ours, and the mean is copied to where the gradients are") {
  std::deque<owner> grads = {owner(7), owner(), owner(10), owner(15)};
  const auto parameters = parameters_with(grads, {7, 0, 10, 15});
  const bucket_plan plan = make_plan(parameters, small);
  bucket_storage storage(plan, parameters, layout::packed);
  CHECK(storage.bytes() == (16 + 16 + 16) * sizeof(float));
  for (std::size_t b = 0; b < 2; ++b) {
    CHECK(storage.view(b).extents.size() == 1);
    CHECK(reinterpret_cast<std::uintptr_t>(storage.view(b).extents[0].data) % 64 == 0);
    for (const float x : elements(storage.view(b))) CHECK(x == 0);  // also between the parameters
  }
  CHECK(storage.view(0).count() == 16);
  CHECK(storage.view(1).count() == 32);
  host_stream s;
  for (int update = 0; update < 2; ++update) {
    for (std::size_t i = 0; i < 4; ++i) {
      grads[i] = owner(grads[i].size());
      const memory home = storage.place(i, parameters[i].grad());
      CHECK(home.count == grads[i].size());
      CHECK(offset(home, storage.view(plan.bucket_of[i])) == (i == 2 || i == 1 ? 16u : 0u));
      for (std::size_t k = 0; k < home.count; ++k) reinterpret_cast<float*>(home.data)[k] = static_cast<float>(100 * i + k);
    }
    storage.unpack(s, 1);
    CHECK((grads[0][0] == 0 && grads[0][6] == 6 && grads[2][0] == 200 && grads[2][9] == 209));
    CHECK(grads[3] == owner(15));
    storage.unpack(s, 0);
    CHECK((grads[3][0] == 300 && grads[3][14] == 314));
  }
}

TEST_CASE("adopted, views are pointed into storage of ours, under every name") {
  std::deque<view> grads(4);
  auto parameters = parameters_with(grads, {7, 0, 10, 15});
  view other_name;
  parameters[2].aliases.push_back({"tied", nullptr, nullptr, &other_name});
  const bucket_plan plan = make_plan(parameters, small);
  bucket_storage storage(plan, parameters, layout::adopted);
  CHECK(storage.bytes() == 48 * sizeof(float));
  CHECK((grads[0].size() == 7 && grads[1].empty() && grads[2].size() == 10 && grads[3].size() == 15));
  CHECK((other_name.data() == grads[2].data() && other_name.size() == 10));
  for (view& grad : grads)
    for (float& x : grad) {
      CHECK(x == 0);
      x = 5;
    }
  for (std::size_t i = 0; i < 4; ++i) {
    const memory home = storage.place(i, parameters[i].grad());
    CHECK((home.count == grads[i].size() && (home.count == 0 || home.data == parameters[i].grad().data)));
    CHECK(reinterpret_cast<std::uintptr_t>(home.data) % 64 == 0);
  }
  const std::vector<float> all = elements(storage.view(1));
  REQUIRE(all.size() == 32);
  for (std::size_t i = 0; i < 32; ++i) CHECK(all[i] == (i < 7 || (i >= 16 && i < 26) ? 5 : 0));
  owner elsewhere(10);
  grads[2] = elsewhere;
  CHECK_THROWS_WITH_AS(
      storage.place(2, parameters[2].grad()),
      "gradsync bucket 1 \"p2\": the gradient was adopted where it lay at the start, and is now elsewhere; write into it instead "
      "of assigning another, or use layout::packed",
      usage_error);
}

TEST_CASE("views look at nothing when their storage goes, those of the model as it is by then") {
  std::deque<view> grads(2), moved(1);
  owner elsewhere(10);
  const auto parameters = parameters_with(grads, {7, 10});
  const bucket_plan plan = make_plan(parameters, small);
  {
    bucket_storage storage(plan, parameters, layout::adopted);
    CHECK(storage.has_views());
    CHECK((grads[0].size() == 7 && grads[1].size() == 10));
  }
  CHECK((grads[0].data() == nullptr && grads[1].data() == nullptr));
  {
    bucket_storage storage(plan, parameters, layout::adopted);
    moved[0] = grads[0];
    grads[1] = elsewhere;
    storage.release(parameters_with(moved, {7}));
    CHECK_FALSE(storage.has_views());
    storage.release(parameters);
  }
  CHECK(moved[0].data() == nullptr);
  CHECK((grads[0].size() == 7 && grads[1].data() == elsewhere.data()));  // nobody has asked for these
  CHECK_FALSE(bucket_storage(plan, parameters, layout::packed).has_views());
}

namespace {

// Gradients that cannot be pointed elsewhere, at given offsets of one arena.
struct fixed {
  float* at;
  std::size_t count;
  float* data() { return at; }
  std::size_t size() const { return count; }
};

}  // namespace

TEST_CASE("an arena is adopted where it lies, bucket by bucket") {
  owner arena(100);
  float* const a = arena.data();
  std::deque<fixed> grads = {{nullptr, 0}, {a, 7}, {a + 7, 0}, {a + 7, 10}, {nullptr, 0}, {a + 50, 15}};
  const auto parameters = parameters_with(grads, {0, 7, 0, 10, 0, 15});
  const bucket_plan plan = make_plan(parameters, small);
  REQUIRE(plan.buckets.size() == 2);
  bucket_storage storage(plan, parameters, layout::adopted);
  CHECK(storage.bytes() == 0);
  CHECK((storage.view(1).extents.size() == 1 && storage.view(1).count() == 17));
  CHECK(reinterpret_cast<float*>(storage.view(1).extents[0].data) == a);
  CHECK((storage.view(0).count() == 15 && reinterpret_cast<float*>(storage.view(0).extents[0].data) == a + 50));
  for (std::size_t i = 0; i < 6; ++i) {
    const memory home = storage.place(i, parameters[i].grad());
    CHECK((home.count == grads[i].count && (home.count == 0 || home.data == reinterpret_cast<std::byte*>(grads[i].at))));
  }
  grads[3].at = a + 20;
  CHECK_THROWS_AS(storage.place(3, parameters[3].grad()), usage_error);
}

TEST_CASE("gradients that do not follow each other cannot be adopted, and the message names the first") {
  owner arena(100);
  float* const a = arena.data();
  const auto refused = [](std::deque<fixed> grads, const char* begin) {
    const auto parameters = parameters_with(grads, {7, 10, 3});
    const bucket_plan plan = make_plan(parameters, small);
    const std::string message =
        begin +
        std::string(
            ": can't adopt this gradient: it doesn't follow the one before it in memory; keep the gradients of a model in one arena, in "
            "model order, or use layout::in_place or layout::packed");
    CHECK_THROWS_WITH_AS(bucket_storage(plan, parameters, layout::adopted), message.c_str(), usage_error);
  };
  refused({{a, 7}, {a + 8, 10}, {a + 18, 3}}, "gradsync bucket 0 \"p1\"");    // a gap
  refused({{a + 10, 7}, {a, 10}, {a + 17, 3}}, "gradsync bucket 0 \"p1\"");   // another order
  refused({{a, 7}, {a + 7, 10}, {a + 7, 3}}, "gradsync bucket 0 \"p2\"");     // on top of another
  refused({{a, 7}, {a + 7, 9}, {a + 17, 3}}, "gradsync bucket 0 \"p1\"");     // shorter than its value
  refused({{nullptr, 0}, {a, 10}, {a + 10, 3}}, "gradsync bucket 0 \"p0\"");  // not made yet
}

TEST_CASE("when the plan changes no slot moves, and buckets become lists of the same slots") {
  const std::vector<std::size_t> counts = {7, 0, 10, 15, 40};
  const std::vector<std::uint32_t> order = {0, 3, 1, 4, 2};
  const auto check = [&](auto& grads, layout how, std::size_t stretches) {
    const auto parameters = parameters_with(grads, counts);
    bucket_plan plan = make_plan(parameters, {.bucket_bytes = 200, .first_bucket_bytes = 100});
    bucket_storage storage(plan, parameters, how);
    std::vector<memory> before;
    for (std::size_t i = 0; i < 5; ++i) before.push_back(storage.place(i, parameters[i].grad()));
    const std::size_t bytes = storage.bytes();
    plan = make_plan(parameters, {.bucket_bytes = 88, .first_bucket_bytes = 88}, order);
    REQUIRE(plan.buckets.size() == 3);  // p0, p1 and p3; p4; p2
    storage.regroup();
    for (std::size_t i = 0; i < 5; ++i) {
      const memory home = storage.place(i, parameters[i].grad());
      CHECK((home.data == before[i].data && home.count == counts[i]));
      for (std::size_t k = 0; k < home.count; ++k) reinterpret_cast<float*>(home.data)[k] = static_cast<float>(100 * i + k + 1);
    }
    CHECK(storage.bytes() == bytes);
    CHECK(storage.view(0).extents.size() == stretches);
    // All elements are there, once each and in model order; what lies between slots of ours is 0.
    for (std::size_t b = 0; b < 3; ++b) {
      std::vector<float> got = elements(storage.view(b)), expected;
      got.erase(std::remove(got.begin(), got.end(), 0.0f), got.end());
      for (const slot& s : plan.buckets[b].slots)
        for (std::size_t k = 0; k < s.count; ++k) expected.push_back(static_cast<float>(100 * s.parameter + k + 1));
      CHECK(got == expected);
      CHECK(storage.view(b).count() == (bytes > 0 ? plan.buckets[b].padded_count : plan.buckets[b].count));
    }
    host_stream s;
    for (std::size_t b = 0; b < 3; ++b) storage.unpack(s, b);
    for (std::size_t i = 0; i < 5; ++i)
      CHECK((counts[i] == 0 || grads[i].data()[counts[i] - 1] == static_cast<float>(100 * i + counts[i])));
  };
  std::deque<owner> owners;
  for (const std::size_t n : counts) owners.emplace_back(n);
  check(owners, layout::in_place, 3);
  check(owners, layout::packed, 2);  // p0 and p3 lie in slots of two stretches of the first plan
  std::deque<view> views(5);
  check(views, layout::adopted, 2);
  owner arena(72);
  float* const a = arena.data();
  std::deque<fixed> fixeds = {{a, 7}, {a + 7, 0}, {a + 7, 10}, {a + 17, 15}, {a + 32, 40}};
  check(fixeds, layout::adopted, 2);
}

TEST_CASE("two types live in storage of their own") {
  std::vector<double> d(3);
  owner f(5);
  auto parameters = test::parameters_of_shapes({{3, dtype::float64}, {5}});
  parameters[0].aliases[0].grad = &d;
  parameters[0].grad_access.read = read<std::vector<double>>;
  parameters[1].aliases[0].grad = &f;
  parameters[1].grad_access.read = read<owner>;
  const bucket_plan plan = make_plan(parameters);
  bucket_storage storage(plan, parameters, layout::packed);
  CHECK(storage.bytes() == 8 * sizeof(double) + 16 * sizeof(float));
  CHECK((storage.view(0).type == dtype::float32 && storage.view(1).type == dtype::float64));
  const memory home = storage.place(0, parameters[0].grad());
  const double values[] = {1, 2, 3};
  std::memcpy(home.data, values, sizeof values);
  host_stream s;
  storage.unpack(s, 1);
  CHECK(d == std::vector<double>{1, 2, 3});
}
