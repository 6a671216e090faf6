// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// What a type is to a walk through a model: something to hand over, something to look into, nothing, or not to be told.
///
/// A type is asked in this order: `parameter_access`, a member list, a hook, a friend `visit_parameters`, then its shape. Integers, single
/// floats, enums, strings, empty types and containers of those are nothing. Inside a `state` all numbers count instead.
///
///     static_assert(shape_of<std::vector<float>> == shape::elements && shape_of<float*> == shape::pointer);
#pragma once

#include <cstddef>      // null pointers
#include <type_traits>  // what a type is
#include <utility>      // declval

#include "gradsync/core/dtype.hpp"
#include "gradsync/model/container.hpp"
#include "gradsync/model/holders.hpp"
#include "gradsync/model/hooks.hpp"
#include "gradsync/model/parameter_access.hpp"
#include "gradsync/model/reflect.hpp"
#include "gradsync/model/state.hpp"

namespace gradsync::detail {

enum class shape {
  nothing,
  // handed over:
  pair,
  elements,
  described,
  state,
  numbers,
  // looked into:
  accessed,
  access_list,
  list,
  hook,
  virtual_hook,
  befriended,
  smart_pointer,
  optional,
  variant,
  tuple,
  map,
  range,
  array,
  aggregate,
  // refused:
  is_const,
  long_floats,
  unequal_elements,
  scattered_floats,
  scattered_numbers,
  float_array,
  pointer,
  array_pointer,
  hash_map,
  foreign_list,
  foreign_hook,
  base_class,
  too_many_fields,
  polymorphic,
  unknown,
};

template <class T>
concept sized_floats = sized_values<T> && std::is_floating_point_v<typename T::value_type>;

template <class T>
consteval bool is_nothing();

template <class... T>
consteval bool are_nothing(type_list<T...>) {
  return (is_nothing<std::remove_cv_t<T>>() && ...);
}

// Surely without parameters. A single float is a setting (a learning rate); floats in a container are not passed over.
template <class T>
consteval bool is_nothing() {
  if constexpr (std::is_array_v<T>)
    return !std::is_floating_point_v<std::remove_all_extents_t<T>> && is_nothing<std::remove_all_extents_t<T>>();
  else if constexpr (std::is_pointer_v<T>) return std::is_function_v<std::remove_pointer_t<T>> || std::is_same_v<T, const char*>;
  else if constexpr (std::is_arithmetic_v<T> || std::is_enum_v<T> || std::is_null_pointer_v<T> || std::is_member_pointer_v<T>) return true;
  else if constexpr (is_skip<T>) return true;
  else if constexpr (float_container<T> || is_state<T>) return false;
  else if constexpr (std::is_empty_v<T>) return true;
  else if constexpr (requires {
                       typename T::first_type;
                       typename T::second_type;
                     })  // a pair, as in a map
    return are_nothing(type_list<typename T::first_type, typename T::second_type>{});
  else if constexpr (sized_values<T> || optional_like<T>) return !sized_floats<T> && is_nothing<std::remove_cv_t<typename T::value_type>>();
  else if constexpr (smart_pointer<T>)
    return !std::is_floating_point_v<typename T::element_type> && is_nothing<std::remove_cv_t<typename T::element_type>>();
  else if constexpr (variant_like<T>) return are_nothing(typename alternatives_of<T>::type{});
  else if constexpr (tuple_like<T>) return []<std::size_t... I>(std::index_sequence<I...>) {
      return are_nothing(type_list<typename std::tuple_element<I, T>::type...>{});
    }
  (std::make_index_sequence<std::tuple_size<T>::value>{});
  else return false; }

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
consteval shape shape_of_holder() {
  if constexpr (smart_pointer<T>) return std::is_floating_point_v<typename T::element_type> ? shape::array_pointer : shape::smart_pointer;
  else if constexpr (has_element_pointer<T>) return shape::array_pointer;
  else if constexpr (variant_like<T>) return shape::variant;
  else if constexpr (map_like<T>) return has_hash<T> ? shape::hash_map : shape::map;
  else if constexpr (value_range<T>) return std::is_floating_point_v<typename T::value_type> ? shape::scattered_floats : shape::range;
  else if constexpr (optional_like<T>) return shape::optional;
  else if constexpr (std::is_aggregate_v<T> && !std::is_union_v<T>) return shape_of_aggregate<T>();
  else if constexpr (tuple_like<T>) return shape::tuple;
  else return std::is_polymorphic_v<T> ? shape::polymorphic : shape::unknown;
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
  else return shape_of_holder<T>();
}

template <class T>
consteval bool lists_own_members() {
  if constexpr (lists_members<T>) return is_list_of<T>(T::parameters);
  else return false;
}

template <class T>
consteval shape find_shape() {
  if constexpr (is_skip<std::remove_cv_t<T>>) return shape::nothing;
  else if constexpr (is_state<T>) return shape::state;
  else if constexpr (has_access_describe<T>) return shape::described;
  else if constexpr (has_access_value<T> && has_access_grad<T>) {
    using grad = std::remove_pointer_t<decltype(parameter_access<T>::grad(std::declval<T&>()).data())>;
    return shape_of_pair<element_type<T>, grad>();
  } else if constexpr (has_access_value<T>) return shape_of_elements<element_type<T>>(shape::elements);
  else if constexpr (lists_members<parameter_access<T>>) return shape::access_list;
  else if constexpr (has_access_visit<T>) return shape::accessed;
  else if constexpr (is_nothing<std::remove_cv_t<T>>()) return shape::nothing;
  else if constexpr (std::is_const_v<T>) return shape::is_const;
  else if constexpr (lists_own_members<T>()) return shape::list;
  else if constexpr (has_virtual_hook<T>) return shape::virtual_hook;
  else if constexpr (has_own_hook<T>) return shape::hook;
  else if constexpr (has_friend<T>) return shape::befriended;
  else if constexpr (lists_members<T>) return shape::foreign_list;
  else if constexpr (has_template_hook<T> || has_erased_hook<T>) return shape::foreign_hook;
  else return shape_by_structure<T>();
}

template <class T>
inline constexpr shape shape_of = find_shape<T>();

template <class T>
concept is_number = std::is_arithmetic_v<T> || std::is_enum_v<T>;
template <class T>
concept sized_numbers = sized_values<T> && is_number<typename T::value_type>;

template <class Element>
consteval shape shape_of_numbers() {
  if constexpr (std::is_const_v<Element>) return shape::is_const;
  else return sizeof(Element) <= 8 ? shape::numbers : shape::long_floats;
}

template <class T>
consteval shape state_shape_of_holder() {
  if constexpr (std::is_array_v<T>) return shape::array;
  else if constexpr (map_like<T>) return has_hash<T> ? shape::hash_map : shape::map;
  else if constexpr (sized_numbers<T>) return shape::scattered_numbers;
  else if constexpr (value_range<T>) return shape::range;
  else if constexpr (smart_pointer<T>) return shape_of<T> == shape::nothing ? shape::smart_pointer : shape_of<T>;
  else if constexpr (variant_like<T>) return shape::variant;
  else if constexpr (optional_like<T>) return shape::optional;
  else if constexpr (tuple_like<T> && !std::is_aggregate_v<T>) return shape::tuple;
  else return shape_of<T>;
}

template <class T>
consteval shape find_state_shape() {
  using element = std::remove_all_extents_t<T>;
  constexpr shape trained = shape_of<T>;
  if constexpr (is_skip<std::remove_cv_t<element>> || text_like<std::remove_cv_t<element>>) return shape::nothing;
  else if constexpr (is_number<element>) return std::is_const_v<element> ? shape::nothing : shape_of_numbers<element>();
  else if constexpr (trained == shape::pair || trained == shape::elements || trained == shape::described || trained == shape::state)
    return trained;
  else if constexpr (std::is_const_v<T> || !(trained == shape::nothing || trained >= shape::smart_pointer)) return trained;
  else if constexpr (contiguous<T>) {
    using pointee = std::remove_pointer_t<decltype(std::declval<T&>().data())>;
    if constexpr (is_number<pointee>) return shape_of_numbers<pointee>();
    else return state_shape_of_holder<T>();
  } else return state_shape_of_holder<T>();
}

/// The same inside a state, where every number counts.
template <class T>
inline constexpr shape state_shape_of = find_state_shape<T>();

}  // namespace gradsync::detail
