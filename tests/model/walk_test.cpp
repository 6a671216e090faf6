// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

#include "gradsync/model/walk.hpp"

#include <doctest/doctest.h>

#include <array>
#include <deque>
#include <map>
#include <span>
#include <string>
#include <vector>

using gradsync::detail::path;
using gradsync::detail::shape;
using gradsync::detail::shape_of;

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

// Writes down where a walk comes by.
struct paths {
  std::vector<std::string> seen;
  template <class T>
  void operator()(const path& at, T&) {
    seen.push_back(at.text());
  }
};

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
}

TEST_CASE("what cannot be told has a reason") {
  CHECK(shape_of<float*> == shape::pointer);
  CHECK(shape_of<float[4]> == shape::float_array);
  CHECK(shape_of<std::deque<float>> == shape::scattered_floats);
  CHECK(shape_of<std::vector<long double>> == shape::long_floats);
  CHECK(shape_of<const std::vector<float>> == shape::is_const);
  CHECK(shape_of<hidden> == shape::unknown);
}

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
