// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

#include "gradsync/model/hooks.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "gradsync/model/for_each_parameter.hpp"
#include "tests/model/names.hpp"

namespace {

struct floats {
  std::vector<float> value, grad;
};

struct with_friend {
  floats a;
  friend void visit_parameters(with_friend& self, auto& visit) { visit("a", self.a); }
};
struct derived_from_friend : with_friend {};

class with_hook {
 public:
  template <class Visit>
  void visit_parameters(Visit& visit) {
    visit("weight", weight_);
    visit.state("mean", mean_);
  }

 private:
  floats weight_;
  std::vector<float> mean_;
};
struct inherits_hook : with_hook {
  floats bias;
};
struct with_own_hook : with_hook {
  floats bias;
  void visit_parameters(auto& visit) {
    with_hook::visit_parameters(visit);
    visit("bias", bias);
  }
};
struct with_list : with_hook {
  floats bias;
  static constexpr auto parameters = gradsync::members<&with_list::bias>;
};
struct plain_hook {
  floats weight;
  std::vector<floats> rest{2};
  void visit_parameters(gradsync::parameter_visitor& visit);  // defined below, as it would be in a source file
};
struct inherits_plain_hook : plain_hook {
  floats bias;
};
struct virtual_hook {
  virtual ~virtual_hook() = default;
  virtual void visit_parameters(gradsync::parameter_visitor& visit) = 0;
};

void plain_hook::visit_parameters(gradsync::parameter_visitor& visit) { visit("weight", weight)("rest", rest); }

using namespace gradsync::detail;

using test::names, test::names_in;

}  // namespace

TEST_CASE("a friend is for exactly the class that it takes") {
  CHECK(has_friend<with_friend>);
  CHECK_FALSE(has_friend<derived_from_friend>);
  CHECK_FALSE(has_friend<floats>);
}

TEST_CASE("a member hook is for exactly the class that wrote it") {
  CHECK(has_own_hook<with_hook>);
  CHECK(has_own_hook<with_own_hook>);
  CHECK(has_own_hook<plain_hook>);
  CHECK_FALSE(has_own_hook<floats>);
  CHECK_FALSE(has_own_hook<virtual_hook>);
  CHECK(has_virtual_hook<virtual_hook>);
  CHECK(shape_of<with_hook> == shape::hook);
  CHECK(shape_of<inherits_hook> == shape::foreign_hook);
  CHECK(shape_of<inherits_plain_hook> == shape::foreign_hook);
  CHECK(shape_of<with_list> == shape::list);
}

TEST_CASE("hooks that are templates, and hooks that are plain functions, are called") {
  with_hook one;
  CHECK(names_in(one) == names{"weight"});
  with_own_hook two;
  CHECK(names_in(two) == names{"weight", "bias"});
  plain_hook three;
  CHECK(names_in(three) == names{"weight", "rest[0]", "rest[1]"});
  std::vector<const void*> marks;
  gradsync::for_each_mark(three, [&](const void* address) { marks.push_back(address); });
  CHECK(marks == std::vector<const void*>{&three.weight, &three.rest[0], &three.rest[1]});
}
