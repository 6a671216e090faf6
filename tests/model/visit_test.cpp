// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

#include "gradsync/model/visit.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "gradsync/model/for_each_parameter.hpp"

using namespace gradsync::detail;

namespace {

struct shown {
  std::vector<float> a{1}, c{2, 3};
  std::vector<double> b{4};
  int steps = 0;
};
void show(shown& x, auto& visit) {
  visit("a", x.a);
  visit.state("steps", x.steps);
  visit("b", x.b);
  visit("c", x.c);
}

struct meetings {
  std::vector<std::string> names;
  std::vector<const void*> here, there;
  template <class T>
  void operator()(const path& at, T& x, T& twin) {
    names.push_back(at.text());
    here.push_back(&x);
    there.push_back(&twin);
  }
};

}  // namespace

TEST_CASE("members are counted without states") {
  shown x;
  count_members visit;
  show(x, visit);
  CHECK(visit.count == 3);
}

TEST_CASE("the twin of a member is found by position and type") {
  shown x;
  const void* met = nullptr;
  auto found = [&](std::vector<float>& other) { met = &other; };
  visit_nth<std::vector<float>, decltype(found)> last{2, found}, middle{1, found};
  show(x, middle);
  CHECK(met == nullptr);  // a vector of double stands there
  show(x, last);
  CHECK(met == &x.c);
}

TEST_CASE("two objects are walked side by side") {
  shown x, twin;
  meetings leaf;
  walk_visited(
      leaf, path{}, [](shown& one, auto& visit) { show(one, visit); }, x, twin);
  CHECK(leaf.names == std::vector<std::string>{"a", "b", "c"});
  CHECK(leaf.here == std::vector<const void*>{&x.a, &x.b, &x.c});
  CHECK(leaf.there == std::vector<const void*>{&twin.a, &twin.b, &twin.c});
}
