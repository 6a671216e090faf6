// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

#include "gradsync/model/parameter_access.hpp"

#include <doctest/doctest.h>

#include <vector>

#include "gradsync/model/for_each_parameter.hpp"

namespace {

struct floats {
  std::vector<float> value, grad;
};

struct base {
  floats a;
  static constexpr auto parameters = gradsync::members<&base::a>;
};
struct derived : base {
  floats b;
};
struct own_list : base {
  floats b;
  static constexpr auto parameters = gradsync::members<&own_list::a, &own_list::b>;
};
struct inherits_all : base {
  static constexpr auto parameters = gradsync::members_of<inherits_all, &inherits_all::a>;
};

using gradsync::detail::is_list_of;
using gradsync::detail::lists_members;

}  // namespace

TEST_CASE("a member list is for exactly the class that wrote it") {
  static_assert(lists_members<base> && lists_members<derived> && !lists_members<floats>);
  CHECK(is_list_of<base>(base::parameters));
  CHECK_FALSE(is_list_of<derived>(derived::parameters));
  CHECK(is_list_of<own_list>(own_list::parameters));
  CHECK(is_list_of<inherits_all>(inherits_all::parameters));
  CHECK_FALSE(is_list_of<base>(inherits_all::parameters));
}

TEST_CASE("what is skipped can still be used as what it is") {
  gradsync::skip<std::vector<float>> cache{{1, 2, 3}};
  std::vector<float>& used = cache;
  used.push_back(4);
  CHECK(cache.value.size() == 4);
  static_assert(gradsync::detail::is_skip<gradsync::skip<int>> && !gradsync::detail::is_skip<int>);
}

namespace {

struct packed_settings {
  floats weight;
  unsigned on : 1, depth : 7;
  static constexpr auto parameters = gradsync::members<&packed_settings::weight>;
};

}  // namespace

TEST_CASE("a struct with bit-fields, which cannot be opened, has a list") {
  packed_settings model{{{1, 2}, {}}, 1, 3};
  CHECK(gradsync::parameters_of(model)[0].name() == "weight");
  CHECK(model.on + model.depth == 4);
}
