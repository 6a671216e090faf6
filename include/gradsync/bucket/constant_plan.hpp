// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// The bucket plan of a model whose type says how long its parameters are, and what a replica of it costs, known to the compiler.
///
/// For std::array, spans and matrices of fixed size, and what is made of them: structs, arrays, tuples, classes with a member list. A
/// parameter is a value and its gradient, or, where gradients are a second object, each container of floats. The rule is the same as at
/// start (cuts.hpp), so a synchronizer with these options cuts alike, until it plans anew from the observed order. Host code: hand its
/// numbers to device code as arguments.
///
///     constexpr auto plan = gradsync::constant_plan<model>({.bucket_bytes = 64 << 10});
///     static_assert(plan.size == 3 && plan.buckets[0].bytes() <= 4096);
///     static_assert(gradsync::replica_bytes<model>({.layout = gradsync::layout::packed, .micro_steps = 4}) <= 256 << 10);
#pragma once

#include <array>        // plans of constant size
#include <bit>          // levels of partial sums
#include <cstddef>      // counts
#include <type_traits>  // what a type is
#include <utility>      // indices

#include "gradsync/bucket/cuts.hpp"
#include "gradsync/bucket/plan.hpp"
#include "gradsync/core/dtype.hpp"
#include "gradsync/model/container.hpp"
#include "gradsync/model/shape.hpp"

namespace gradsync {

struct constant_bucket {
  dtype type = dtype::float32;
  std::size_t count = 0;         ///< elements
  std::size_t padded_count = 0;  ///< elements of storage of the library
  constexpr std::size_t bytes() const { return count * size_of(type); }
};

/// Of `Parameters` parameters, whose indices are those in model order.
template <std::size_t Parameters>
struct constant_bucket_plan {
  std::size_t size = 0;                               ///< buckets
  std::array<constant_bucket, Parameters> buckets{};  ///< in the order in which they leave; those from `size` on are empty
  std::array<std::size_t, Parameters> bucket_of{};    ///< by parameter
  std::array<slot, Parameters> slots{};               ///< by parameter
};

/// How the library is used; the defaults are a synchronizer's between threads.
struct replica_options {
  plan_options plan{};
  gradsync::layout layout = gradsync::layout::in_place;
  std::size_t micro_steps = 1;       ///< of an update, added up in a tree: ⌊log2(n - 1)⌋ + 1 copies of the gradients from 2 on
  std::size_t optimizer_arrays = 0;  ///< of the size of the values: 1 for momentum, 2 for AdamW
};

namespace detail {

inline constexpr auto no_count = static_cast<std::size_t>(-1);

// The number of elements that the type tells; `no_count` where only an object does.
template <class T>
consteval std::size_t constant_count() {
  if constexpr (requires { T::SizeAtCompileTime; })
    return T::SizeAtCompileTime < 0 ? no_count : static_cast<std::size_t>(T::SizeAtCompileTime);
  else if constexpr (requires { T::extent; }) return T::extent;  // of a std::span; `no_count` where its length varies
  else if constexpr (tuple_like<T>) return std::tuple_size<T>::value;
  else return no_count;
}

struct as_type_list {
  template <class... Field>
  type_list<Field...> operator()(Field&...) const {
    return {};
  }
};
template <class T>
using fields_of = decltype(with_fields<field_count<T>>(std::declval<T&>(), as_type_list{}));

// Calls `f(plan_item)` for each parameter that an object of type T has, in model order.
template <class T, class F>
constexpr void for_each_item(F& f);

template <class... T, class F>
constexpr void for_each_item_of(type_list<T...>, F& f) {
  (for_each_item<T>(f), ...);
}
template <class T, class Owner, auto... Member, class F>
constexpr void for_each_item_listed(member_list<Owner, Member...>, F& f) {
  (for_each_item<std::remove_reference_t<decltype(std::declval<T&>().*Member)>>(f), ...);
}
template <class T, class F, std::size_t... I>
constexpr void for_each_item_in_tuple(std::index_sequence<I...>, F& f) {
  (for_each_item<typename std::tuple_element<I, T>::type>(f), ...);
}

template <class Container, class F>
constexpr void add_item(F& f) {
  using elements = std::remove_cvref_t<decltype(elements_of(std::declval<Container&>()))>;
  static_assert(constant_count<elements>() != no_count,
                "gradsync: a constant plan needs lengths that the types tell: hold a std::array or a matrix of fixed size instead of this "
                "container, or plan at run time with gradsync::make_plan(gradsync::parameters_of(model))");
  f(plan_item{dtype_of<element_type<Container>>(), constant_count<elements>()});
}

template <class T, class F>
constexpr void for_each_item(F& f) {
  constexpr shape is = shape_of<T>;
  if constexpr (is == shape::nothing || is == shape::state) return;
  else if constexpr (is == shape::elements || (is == shape::pair && has_access_value<T>)) add_item<T>(f);
  else if constexpr (is == shape::pair) add_item<std::remove_reference_t<decltype((std::declval<T&>().value))>>(f);
  else if constexpr (is == shape::list) for_each_item_listed<T>(T::parameters, f);
  else if constexpr (is == shape::access_list) for_each_item_listed<T>(parameter_access<T>::parameters, f);
  else if constexpr (is == shape::tuple) for_each_item_in_tuple<T>(std::make_index_sequence<std::tuple_size<T>::value>{}, f);
  else if constexpr (is == shape::aggregate) for_each_item_of(fields_of<T>{}, f);
  else if constexpr (is == shape::array)
    for (std::size_t i = 0; i < std::extent_v<T>; ++i) for_each_item<std::remove_extent_t<T>>(f);
  else if constexpr (is == shape::range && tuple_like<T>)
    for (std::size_t i = 0; i < std::tuple_size<T>::value; ++i) for_each_item<typename T::value_type>(f);
  else
    static_assert(is == shape::nothing,
                  "gradsync: a constant plan needs a model whose type tells all its parameters: structs, arrays and member lists, no "
                  "pointers, hooks or containers that grow; or plan at run time with gradsync::make_plan(gradsync::parameters_of(model))");
}

struct count_items {
  std::size_t count = 0;
  constexpr void operator()(const plan_item&) { ++count; }
};
template <std::size_t Count>
struct list_items {
  std::array<plan_item, Count> all{};
  std::size_t count = 0;
  constexpr void operator()(const plan_item& item) { all[count++] = item; }
};

template <class Model>
consteval auto constant_items() {
  constexpr std::size_t count = [] {
    count_items counter;
    for_each_item<Model>(counter);
    return counter.count;
  }();
  static_assert(count > 0, "gradsync: this model has no parameter to plan for");
  list_items<count> list;
  for_each_item<Model>(list);
  return list.all;
}

}  // namespace detail

/// The plan of a model of this type.
template <class Model>
constexpr auto constant_plan(const plan_options& options = {}) {
  constexpr auto items = detail::constant_items<Model>();
  constant_bucket_plan<items.size()> plan;
  plan.size = cut_buckets(items, options, {}, plan.bucket_of);
  for (std::size_t i = 0; i < items.size(); ++i) plan.slots[i] = append_to(plan.buckets[plan.bucket_of[i]], i, items[i]);
  return plan;
}

/// Bytes that one replica takes of what the library knows: values, gradients, buckets, partial sums, optimizer. States are not counted.
template <class Model>
constexpr std::size_t replica_bytes(const replica_options& options = {}) {
  constexpr auto items = detail::constant_items<Model>();
  std::size_t bytes = 0, padded = 0, slabs = 0;
  for (const plan_item& item : items) {
    bytes += item.bytes();
    padded += (item.bytes() + 63) / 64 * 64;
  }
  for (const constant_bucket& b : constant_plan<Model>(options.plan).buckets) slabs += b.padded_count * size_of(b.type);
  const std::size_t levels = options.micro_steps < 2 ? 0 : static_cast<std::size_t>(std::bit_width(options.micro_steps - 1));
  return 2 * bytes + (options.layout == layout::packed ? slabs : 0) + levels * padded + options.optimizer_arrays * bytes;
}

}  // namespace gradsync
