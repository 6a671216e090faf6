// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

#include "gradsync/model/shape.hpp"

#include <doctest/doctest.h>

#include <array>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

using gradsync::detail::shape;
using gradsync::detail::shape_of;
using gradsync::detail::state_shape_of;

namespace {

struct pair {
  std::vector<float> value, grad;
};
struct layer {
  pair weight, bias;
};
class hidden {
  [[maybe_unused]] int size_ = 0;

 public:
  [[maybe_unused]] hidden() {}
};
struct abstract {
  virtual ~abstract() = default;
  virtual void forward() = 0;
};
struct declared;

}  // namespace

TEST_CASE("each type has its shape") {
  CHECK(shape_of<int> == shape::nothing);
  CHECK(shape_of<float> == shape::nothing);  // a setting
  CHECK(shape_of<std::string> == shape::nothing);
  CHECK(shape_of<std::map<int, std::string>> == shape::nothing);
  CHECK(shape_of<gradsync::skip<float*>> == shape::nothing);
  CHECK(shape_of<std::vector<float>> == shape::elements);
  CHECK(shape_of<std::array<double, 3>> == shape::elements);
  CHECK(shape_of<std::span<float>> == shape::elements);
  CHECK(shape_of<pair> == shape::pair);
  CHECK(shape_of<layer> == shape::aggregate);
  CHECK(shape_of<std::vector<layer>> == shape::range);
  CHECK(shape_of<std::array<layer, 2>> == shape::range);
  CHECK(shape_of<layer[2]> == shape::array);
  CHECK(shape_of<std::deque<layer>> == shape::range);
  CHECK(shape_of<std::map<int, layer>> == shape::map);
  CHECK(shape_of<std::unique_ptr<layer>> == shape::smart_pointer);
  CHECK(shape_of<std::shared_ptr<layer>> == shape::smart_pointer);
  CHECK(shape_of<std::optional<layer>> == shape::optional);
  CHECK(shape_of<std::variant<int, layer>> == shape::variant);
  CHECK(shape_of<std::tuple<int, layer>> == shape::tuple);
  CHECK(shape_of<std::pair<int, layer>> == shape::tuple);
  CHECK(shape_of<gradsync::state<int>> == shape::state);
}

TEST_CASE("what cannot be told has a reason") {
  CHECK(shape_of<float*> == shape::pointer);
  CHECK(shape_of<float[4]> == shape::float_array);
  CHECK(shape_of<std::deque<float>> == shape::scattered_floats);
  CHECK(shape_of<std::vector<long double>> == shape::long_floats);
  CHECK(shape_of<const std::vector<float>> == shape::is_const);
  CHECK(shape_of<hidden> == shape::unknown);
  CHECK(shape_of<abstract> == shape::polymorphic);
  CHECK(shape_of<std::unique_ptr<float[]>> == shape::array_pointer);
  CHECK(shape_of<std::shared_ptr<float>> == shape::array_pointer);
  CHECK(shape_of<std::unique_ptr<declared>> == shape::array_pointer);
  CHECK(shape_of<std::unordered_map<int, layer>> == shape::hash_map);
}

TEST_CASE("what holds only settings is a setting") {
  CHECK(shape_of<std::unique_ptr<int>> == shape::nothing);
  CHECK(shape_of<std::optional<float>> == shape::nothing);
  CHECK(shape_of<std::variant<int, std::string>> == shape::nothing);
  CHECK(shape_of<std::tuple<float, bool>> == shape::nothing);
  CHECK(shape_of<std::pair<int, float>> == shape::nothing);
  CHECK(shape_of<std::unordered_map<std::string, int>> == shape::nothing);
}

TEST_CASE("inside a state all numbers count") {
  CHECK(state_shape_of<float> == shape::numbers);
  CHECK(state_shape_of<bool[3]> == shape::numbers);
  CHECK(state_shape_of<float[2][3]> == shape::numbers);
  CHECK(state_shape_of<std::vector<int>> == shape::numbers);
  CHECK(state_shape_of<std::span<unsigned char>> == shape::numbers);
  CHECK(state_shape_of<std::vector<float>> == shape::elements);
  CHECK(state_shape_of<pair> == shape::pair);
  CHECK(state_shape_of<layer> == shape::aggregate);
  CHECK(state_shape_of<std::array<layer, 2>> == shape::range);
  CHECK(state_shape_of<std::vector<std::vector<int>>> == shape::range);
  CHECK(state_shape_of<std::optional<int>> == shape::optional);
  CHECK(state_shape_of<std::map<int, float>> == shape::map);
  CHECK(state_shape_of<std::string> == shape::nothing);
  CHECK(state_shape_of<const int> == shape::nothing);
  CHECK(state_shape_of<std::vector<bool>> == shape::scattered_numbers);
  CHECK(state_shape_of<std::deque<int>> == shape::scattered_numbers);
  CHECK(state_shape_of<const std::vector<float>> == shape::is_const);
  CHECK(state_shape_of<std::span<const int>> == shape::is_const);
  CHECK(state_shape_of<long double> == shape::long_floats);
  CHECK(state_shape_of<int*> == shape::pointer);
}
