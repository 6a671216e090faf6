// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// Finds the parameters inside a user's model by the types of its members, and refuses what it cannot be sure of.
///
/// A type is asked in this order: `parameter_access`, a member list, a friend `visit_parameters`, then its shape. Integers, single floats,
/// enums, strings, empty types and containers of those are passed over. What might hold parameters but fits nothing does not compile; the
/// sentence says what to write. No allocation, no state: the path is built on the call stack, and only read where somebody asks for its
/// text.
#pragma once

#include <concepts>     // what can be indexed
#include <cstddef>      // indices
#include <string>       // paths as text
#include <string_view>  // names
#include <type_traits>  // what a type is
#include <utility>      // declval

#include "gradsync/core/error.hpp"
#include "gradsync/model/container.hpp"
#include "gradsync/model/parameter_access.hpp"
#include "gradsync/model/reflect.hpp"

namespace gradsync::detail {

/// Where in the model we are, as a chain over the call stack.
struct path {
  const path* up = nullptr;
  std::string_view name;
  std::size_t index = 0;

  std::string text() const {
    if (up == nullptr) return {};
    std::string all = up->text();
    if (name.empty()) return all + "[" + std::to_string(index) + "]";
    return (all.empty() ? all : all + ".").append(name);
  }
};

enum class shape {
  nothing,
  pair,
  elements,
  accessed,
  access_list,
  list,
  befriended,
  range,
  array,
  aggregate,
  // refused:
  is_const,
  long_floats,
  unequal_elements,
  scattered_floats,
  float_array,
  pointer,
  foreign_list,
  base_class,
  too_many_fields,
  unknown,
};

template <class T>
concept sized_values = requires(T& x) {
  typename T::value_type;
  x.size();
}
&&!std::is_same_v<typename T::value_type, T>;

template <class T>
concept indexed = sized_values<T> && requires(T& x, std::size_t i) {
  { x[i] } -> std::same_as<typename T::value_type&>;
};

// Surely without parameters. A single float is a setting (a learning rate); floats in a container are not passed over.
template <class T>
consteval bool is_nothing() {
  if constexpr (std::is_array_v<T>)
    return !std::is_floating_point_v<std::remove_all_extents_t<T>> && is_nothing<std::remove_all_extents_t<T>>();
  else if constexpr (std::is_pointer_v<T>) return std::is_function_v<std::remove_pointer_t<T>> || std::is_same_v<T, const char*>;
  else if constexpr (std::is_arithmetic_v<T> || std::is_enum_v<T> || std::is_null_pointer_v<T> || std::is_member_pointer_v<T>) return true;
  else if constexpr (is_skip<T>) return true;
  else if constexpr (float_container<T>) return false;
  else if constexpr (std::is_empty_v<T>) return true;
  else if constexpr (requires {
                       typename T::first_type;
                       typename T::second_type;
                     })  // a pair, as in a map
    return is_nothing<std::remove_cv_t<typename T::first_type>>() && is_nothing<std::remove_cv_t<typename T::second_type>>();
  else if constexpr (sized_values<T>)
    return !std::is_floating_point_v<typename T::value_type> && is_nothing<std::remove_cv_t<typename T::value_type>>();
  else return false;
}

template <class T>
concept has_value_and_grad = requires(T& x) {
  requires float_container<std::remove_reference_t<decltype((x.value))>>;
  requires float_container<std::remove_reference_t<decltype((x.grad))>>;
};

template <class Element>
consteval shape shape_of_elements(shape if_usable) {
  if constexpr (std::is_const_v<Element>) return shape::is_const;
  else if constexpr (!gradient_element<Element>) return shape::long_floats;
  else return if_usable;
}

template <class Value, class Grad>
consteval shape shape_of_pair() {
  if constexpr (std::is_const_v<Grad>) return shape::is_const;
  else if constexpr (std::is_same_v<std::remove_const_t<Value>, Grad>) return shape_of_elements<Value>(shape::pair);
  else return shape::unequal_elements;
}

template <class T>
consteval shape shape_of_aggregate() {
  if constexpr (has_base<T>) return shape::base_class;
  else if constexpr (field_count<T> > most_fields) return shape::too_many_fields;
  else return shape::aggregate;
}

template <class T>
consteval shape shape_by_structure() {
  if constexpr (has_value_and_grad<T>) {
    using value = std::remove_reference_t<decltype((std::declval<T&>().value))>;
    using grad = std::remove_reference_t<decltype((std::declval<T&>().grad))>;
    return shape_of_pair<element_type<value>, element_type<grad>>();
  } else if constexpr (float_container<T>) return shape_of_elements<element_type<T>>(shape::elements);
  else if constexpr (std::is_pointer_v<T>) return shape::pointer;
  else if constexpr (std::is_array_v<T>) return std::is_floating_point_v<std::remove_all_extents_t<T>> ? shape::float_array : shape::array;
  else if constexpr (indexed<T>) return std::is_floating_point_v<typename T::value_type> ? shape::scattered_floats : shape::range;
  else if constexpr (std::is_aggregate_v<T> && !std::is_union_v<T>) return shape_of_aggregate<T>();
  else return shape::unknown;
}

template <class T>
consteval shape find_shape() {
  if constexpr (is_skip<std::remove_cv_t<T>>) return shape::nothing;
  else if constexpr (has_access_value<T> && has_access_grad<T>) {
    using grad = std::remove_pointer_t<decltype(parameter_access<T>::grad(std::declval<T&>()).data())>;
    return shape_of_pair<element_type<T>, grad>();
  } else if constexpr (has_access_value<T>) return shape_of_elements<element_type<T>>(shape::elements);
  else if constexpr (lists_members<parameter_access<T>>) return shape::access_list;
  else if constexpr (has_access_visit<T>) return shape::accessed;
  else if constexpr (is_nothing<std::remove_cv_t<T>>()) return shape::nothing;
  else if constexpr (std::is_const_v<T>) return shape::is_const;
  else if constexpr (lists_members<T>) return is_list_of<T>(T::parameters) ? shape::list : shape::foreign_list;
  else if constexpr (has_friend<T>) return shape::befriended;
  else return shape_by_structure<T>();
}

template <class T>
inline constexpr shape shape_of = find_shape<T>();

/// Does not compile, for the one reason that `Is` gives.
template <class T, shape Is>
constexpr void refuse() {
  static_assert(Is != shape::is_const,
                "gradsync: what is const cannot be trained: drop the const from this parameter or gradient, or wrap the member in "
                "gradsync::skip<>");
  static_assert(Is != shape::long_floats,
                "gradsync: parameters are float or double: convert this long double container, or wrap it in gradsync::skip<>");
  static_assert(Is != shape::unequal_elements,
                "gradsync: a value and its gradient have the same element type: give both float, or both double");
  static_assert(Is != shape::scattered_floats,
                "gradsync: these floats are not contiguous: hold them in a std::vector<float>, or wrap the member in gradsync::skip<>");
  static_assert(Is != shape::float_array,
                "gradsync: a bare array of floats is a parameter or a table, which cannot be told: write std::array<float, N> for a "
                "parameter, gradsync::skip<float[N]> for anything else");
  static_assert(Is != shape::pointer,
                "gradsync: a raw pointer says neither how long its memory is nor whose: hold a std::span<float> or a container, "
                "name the parameters in a visit_parameters friend, or wrap the pointer in gradsync::skip<>");
  static_assert(Is != shape::foreign_list,
                "gradsync: this class only inherits the member list of its base: give it its own, "
                "static constexpr auto parameters = gradsync::members_of<derived, &derived::weight, ...>");
  static_assert(Is != shape::base_class,
                "gradsync: an aggregate with a base class cannot be opened: write "
                "static constexpr auto parameters = gradsync::members<&net::weight, ...> in it");
  static_assert(Is != shape::too_many_fields,
                "gradsync: only aggregates of up to 32 fields, none of them a reference, are opened: write "
                "static constexpr auto parameters = gradsync::members<&net::weight, ...> in it, or a visit_parameters friend");
  static_assert(Is != shape::unknown,
                "gradsync: it cannot be told where this type has its parameters: write "
                "static constexpr auto parameters = gradsync::members<&net::weight, ...> in it, "
                "specialise gradsync::parameter_access for it, or wrap it in gradsync::skip<>");
}

template <class Leaf, class T, class... Twin>
void walk(Leaf& leaf, const path& at, T& x, Twin&... twin);

template <auto Member, class Leaf, class... T>
void walk_member(Leaf& leaf, const path& at, T&... x) {
  walk(leaf, path{&at, member_name<Member>}, (x.*Member)...);
}
template <class Leaf, class Owner, auto... Member, class... T>
void walk_members(Leaf& leaf, const path& at, member_list<Owner, Member...>, T&... x) {
  (walk_member<Member>(leaf, at, x...), ...);
}

// How often a user's function calls back for `x`.
template <class Call, class T>
std::size_t count_visits(Call call, T& x) {
  std::size_t count = 0;
  auto visit = [&count]<class Member>(std::string_view, Member&) { ++count; };
  call(x, visit);
  return count;
}

// A user's function visits one object; its twin is visited again for each member, up to the one with the same position.
template <class Leaf, class Call, class T, class... Twin>
void walk_visited(Leaf& leaf, const path& at, Call call, T& x, Twin&... twin) {
  if (((count_visits(call, twin) != count_visits(call, x)) || ...))
    throw usage_error("its twin among the gradients has another number of members; build both alike", {.parameter = at.text()});
  std::size_t position = 0;
  auto visit = [&]<class Member>(std::string_view name, Member& member) {
    const path here{&at, name};
    if constexpr (sizeof...(Twin) == 0) walk(leaf, here, member);
    else {
      std::size_t twin_position = 0;
      auto visit_twin = [&]<class Other>(std::string_view, Other& other) {
        if constexpr (std::is_same_v<Other, Member>)
          if (twin_position == position) walk(leaf, here, member, other);
        ++twin_position;
      };
      (call(twin, visit_twin), ...);
      ++position;
    }
  };
  call(x, visit);
}

template <class Leaf, class T, class... Twin>
void walk(Leaf& leaf, const path& at, T& x, Twin&... twin) {
  constexpr shape is = shape_of<T>;
  if constexpr (is == shape::nothing) return;
  else if constexpr (is == shape::pair || is == shape::elements) leaf(at, x, twin...);
  else if constexpr (is == shape::access_list) walk_members(leaf, at, parameter_access<T>::parameters, x, twin...);
  else if constexpr (is == shape::list) walk_members(leaf, at, T::parameters, x, twin...);
  else if constexpr (is == shape::accessed)
    walk_visited(
        leaf, at, [](T& one, auto& visit) { parameter_access<T>::visit(one, visit); }, x, twin...);
  else if constexpr (is == shape::befriended)
    walk_visited(
        leaf, at, [](T& one, auto& visit) { visit_parameters(one, visit); }, x, twin...);
  else if constexpr (is == shape::array)
    for (std::size_t i = 0; i < std::extent_v<T>; ++i) walk(leaf, path{&at, {}, i}, x[i], twin[i]...);
  else if constexpr (is == shape::range) {
    const auto count = static_cast<std::size_t>(x.size());
    if (((static_cast<std::size_t>(twin.size()) != count) || ...))
      throw usage_error("has " + std::to_string(count) + " elements, its twin among the gradients another number; build both alike",
                        {.parameter = at.text()});
    for (std::size_t i = 0; i < count; ++i) walk(leaf, path{&at, {}, i}, x[i], twin[i]...);
  } else if constexpr (is == shape::aggregate)
    for_each_field(x, twin..., [&](std::string_view name, auto& field, auto&... twins) { walk(leaf, path{&at, name}, field, twins...); });
  else refuse<T, is>();
}

}  // namespace gradsync::detail
