// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

#include "gradsync/model/reflect.hpp"

#include <doctest/doctest.h>

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace {

struct small {
  std::vector<float> value, grad;
};
struct without_default {
  explicit without_default(int) {}
  std::vector<float> value;
};
struct owner : small {
  int more;
};
struct nothing {};
struct tagged : nothing {
  small one;
};
template <class T>
struct box {
  T only;
};
struct hidden {
  hidden() : secret_(1) {}
  int get() const { return secret_; }

 private:
  int secret_;

 public:
  static constexpr std::string_view name = gradsync::member_name<&hidden::secret_>;
};

template <class T>
std::vector<std::string> names_in() {
  std::vector<std::string> all;
  for (std::size_t i = 0; i < gradsync::field_count<T>; ++i) all.emplace_back(gradsync::field_names<T>.at[i]);
  return all;
}
using names = std::vector<std::string>;

}  // namespace

TEST_CASE("fields of every kind are counted once, C arrays and containers too") {
  struct arrays {
    std::vector<small> list;
    std::array<small, 3> fixed;
    small four[4];
    int grid[2][3];
    float x;
    small one[1];
  };
  struct no_default {
    without_default a, b;
    small rest[3];
  };
  struct library {
    std::string text;
    std::unique_ptr<int> owned;
    std::function<void()> call;
    std::map<int, int> table;
    std::optional<small> perhaps;
    std::mt19937 random;
    small last[2];
  };
  struct views {
    std::span<float> dynamic;
    std::span<float, 3> fixed;
    const int constant = 3;
  };
  struct nested {
    struct {
      int a;
      small b;
    } inner;
    std::vector<std::vector<small>> deep;
    struct {
    } empty;
  };
  static_assert(gradsync::field_count<small> == 2);
  static_assert(gradsync::field_count<nothing> == 0);
  static_assert(gradsync::field_count<arrays> == 6);
  static_assert(gradsync::field_count<no_default> == 3);
  static_assert(gradsync::field_count<library> == 7);
  static_assert(gradsync::field_count<views> == 3);
  static_assert(gradsync::field_count<nested> == 3);
  CHECK(names_in<arrays>() == names{"list", "fixed", "four", "grid", "x", "one"});
  CHECK(names_in<no_default>() == names{"a", "b", "rest"});
  CHECK(names_in<library>() == names{"text", "owned", "call", "table", "perhaps", "random", "last"});
  CHECK(names_in<nested>() == names{"inner", "deep", "empty"});
}

TEST_CASE("names are those of the source, in templates, local classes and beyond ASCII") {
  struct local {
    int weight_1;
    float größe;
    small Weight;
  };
  CHECK(names_in<local>() == names{"weight_1", "größe", "Weight"});
  CHECK(names_in<box<box<small>>>() == names{"only"});
  CHECK(gradsync::member_name<&small::grad> == "grad");
  CHECK(gradsync::member_name<&box<small>::only> == "only");
  CHECK(hidden::name == "secret_");
  CHECK(hidden().get() == 1);
}

TEST_CASE("base classes are seen, also empty ones") {
  static_assert(gradsync::has_base<owner> && gradsync::has_base<tagged>);
  static_assert(!gradsync::has_base<small> && !gradsync::has_base<box<owner>> && !gradsync::has_base<nothing>);
  CHECK(gradsync::has_base<owner>);
}

TEST_CASE("too many fields and references are told by the count") {
  struct wide {
    int a[20];
    int b01, b02, b03, b04, b05, b06, b07, b08, b09, b10, b11, b12, b13, b14, b15, b16, b17, b18, b19, b20, b21, b22, b23, b24, b25, b26,
        b27, b28, b29, b30, b31, b32;
  };
  struct reference {
    int& there;
  };
  static_assert(gradsync::field_count<wide> == 33);
  CHECK(gradsync::field_count<reference> > gradsync::detail::most_fields);
}

TEST_CASE("fields are handed out by reference, one object or two") {
  struct net {
    small layers[2];
    int steps;
  };
  net a{}, b{};
  int calls = 0;
  gradsync::for_each_field(a, [&](std::string_view, auto& field) {
    ++calls;
    if constexpr (std::is_same_v<decltype(field), int&>) field = 7;
    else static_assert(std::is_same_v<decltype(field), small(&)[2]>);
  });
  CHECK(calls == 2);
  CHECK(a.steps == 7);
  gradsync::for_each_field(a, b, [](std::string_view name, auto& one, auto& twin) {
    if constexpr (std::is_same_v<decltype(one), int&>)
      if (name == "steps") twin = one + 1;
  });
  CHECK(b.steps == 8);
  const net& fixed = b;
  gradsync::for_each_field(fixed, [](std::string_view, auto& field) {
    static_assert(std::is_const_v<std::remove_all_extents_t<std::remove_reference_t<decltype(field)>>>);
  });
}
