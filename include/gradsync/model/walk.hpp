// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// Goes through a user's model, or two of one type side by side, and hands what it finds to a leaf: `leaf(at, x)` or `leaf(at, x, twin)`.
///
/// A leaf with `collects_states` is handed what stands inside states by `leaf.state(at, x)`. Nothing behind a null pointer or in an empty
/// optional; of a variant, the alternative held now. No allocation, no state: the path is built on the call stack, and only read where
/// somebody asks for its text. What might hold parameters but fits nothing does not compile; the sentence says what to write.
///
/// `usage_error`: a twin that is built otherwise, an object of a derived class where its base alone has said what its parameters are.
#pragma once

#include <cstddef>      // indices
#include <string>       // messages
#include <string_view>  // names
#include <type_traits>  // what a type is
#include <typeinfo>     // what an object is
#include <utility>      // indices

#include "gradsync/core/error.hpp"
#include "gradsync/model/parameter_access.hpp"
#include "gradsync/model/parameter_visitor.hpp"
#include "gradsync/model/path.hpp"
#include "gradsync/model/reflect.hpp"
#include "gradsync/model/refuse.hpp"
#include "gradsync/model/shape.hpp"
#include "gradsync/model/visit.hpp"

namespace gradsync::detail {

[[noreturn]] inline void throw_unlike(const path& at, const std::string& what) {
  throw usage_error(what + "; build both alike", {.parameter = at.text()});
}

// Where only the base class has said what its parameters are, those of a derived class would be lost.
template <class T>
void check_exact(const path& at, const T& x) {
  if constexpr (std::is_polymorphic_v<T> && !std::is_final_v<T>)
    if (typeid(x) != typeid(T))
      throw usage_error(
          "is of a derived class, whose own parameters would be passed over; write virtual void "
          "visit_parameters(gradsync::parameter_visitor& visit) in the base, and override it",
          {.parameter = at.text()});
}

template <auto Member, class Leaf, class... T>
void walk_member(Leaf& leaf, const path& at, T&... x) {
  walk(leaf, path{&at, member_name<Member>}, (x.*Member)...);
}
template <class Leaf, class Owner, auto... Member, class... T>
void walk_members(Leaf& leaf, const path& at, member_list<Owner, Member...>, T&... x) {
  (walk_member<Member>(leaf, at, x...), ...);
}

template <class Leaf, class T, class... Twin>
void walk_smart_pointer(Leaf& leaf, const path& at, T& x, Twin&... twin) {
  if (((bool(twin) != bool(x)) || ...)) throw_unlike(at, "one of its twins, value and gradient, is a null pointer");
  int depth = 0;
  for (const path* up = &at; up != nullptr; up = up->up)
    if (++depth > 1000) throw usage_error("lies more than 1000 levels deep; break the circle of pointers", {.parameter = at.text()});
  if (bool(x)) walk(leaf, at, *x, *twin...);
}

template <class Leaf, class T, class... Twin>
void walk_optional(Leaf& leaf, const path& at, T& x, Twin&... twin) {
  if (((twin.has_value() != x.has_value()) || ...)) throw_unlike(at, "one of its twins, value and gradient, is empty");
  if (x.has_value()) walk(leaf, at, *x, *twin...);
}

template <std::size_t I, class Leaf, class T, class... Twin>
void walk_alternative(Leaf& leaf, const path& at, std::size_t held, T& x, Twin&... twin) {
  if (I == held) walk(leaf, at, *get_if<I>(&x), *get_if<I>(&twin)...);
}

template <class Leaf, class T, class... Twin>
void walk_variant(Leaf& leaf, const path& at, T& x, Twin&... twin) {
  const auto held = static_cast<std::size_t>(x.index());
  if (((static_cast<std::size_t>(twin.index()) != held) || ...)) throw_unlike(at, "its twin among the gradients holds another alternative");
  [&]<std::size_t... I>(std::index_sequence<I...>) { (walk_alternative<I>(leaf, at, held, x, twin...), ...); }
  (std::make_index_sequence<alternatives_of<T>::type::size>{});
}

template <std::size_t I, class Leaf, class T, class... Twin>
void walk_element(Leaf& leaf, const path& at, T& x, Twin&... twin) {
  using std::get;
  std::string_view name;
  if constexpr (requires { x.first; }) name = I == 0 ? "first" : "second";
  walk(leaf, path{&at, name, I}, get<I>(x), get<I>(twin)...);
}

template <class Leaf, class T, class... Twin>
void walk_tuple(Leaf& leaf, const path& at, T& x, Twin&... twin) {
  [&]<std::size_t... I>(std::index_sequence<I...>) { (walk_element<I>(leaf, at, x, twin...), ...); }
  (std::make_index_sequence<std::tuple_size<T>::value>{});
}

// Elements of a map are named by their keys where these are texts or whole numbers, else by their position.
template <class Key>
path path_of_key(const path& at, const Key& key, std::int64_t position) {
  if constexpr (std::is_convertible_v<const Key&, std::string_view>) return {&at, std::string_view(key), position};
  else if constexpr (is_number<Key> && !std::is_floating_point_v<Key>) return {&at, {}, static_cast<std::int64_t>(key)};
  else return {&at, {}, position};
}

template <class Leaf, class T, class... Twin>
void walk_range(Leaf& leaf, const path& at, T& x, Twin&... twin) {
  if (((twin.size() != x.size()) || ...))
    throw_unlike(at, "has " + std::to_string(x.size()) + " elements, its twin among the gradients another number");
  std::int64_t position = 0;
  auto step = [&](auto& element, auto&... twins) {
    if constexpr (map_like<T>) {
      if (((twins.first < element.first || element.first < twins.first) || ...))
        throw_unlike(at, "its twin among the gradients has other keys");
      walk(leaf, path_of_key(at, element.first, position++), element.second, twins.second...);
    } else walk(leaf, path{&at, {}, position++}, element, twins...);
  };
  auto walk_from = [&](auto... others) {
    for (auto i = x.begin(); i != x.end(); ++i) step(*i, *others++...);
  };
  walk_from(twin.begin()...);
}

template <class Leaf, class T>
void walk_state(Leaf& leaf, const path& at, T& x) {
  static_assert(state_shape_of<T> != shape::nothing,
                "gradsync: this state holds no number that the other ranks could be given: leave out the gradsync::state<>");
  if constexpr (is_as_state<Leaf>) walk(leaf, at, x);
  else if constexpr (collects_states<Leaf>) {
    as_state<Leaf> inner{leaf};
    walk(inner, at, x);
  }
}

// What a class shows of itself, by a list or a function.
template <shape Is, class Leaf, class T, class... Twin>
void walk_shown(Leaf& leaf, const path& at, T& x, Twin&... twin) {
  if constexpr (Is == shape::access_list) walk_members(leaf, at, parameter_access<T>::parameters, x, twin...);
  else if constexpr (Is == shape::accessed)
    walk_visited(
        leaf, at, [](T& one, auto& visit) { parameter_access<T>::visit(one, visit); }, x, twin...);
  else if constexpr (Is == shape::virtual_hook) walk_erased(leaf, at, x, twin...);
  else {
    check_exact(at, x);
    (check_exact(at, twin), ...);
    if constexpr (Is == shape::list) walk_members(leaf, at, T::parameters, x, twin...);
    else if constexpr (Is == shape::hook && !has_template_hook<T>) walk_erased(leaf, at, x, twin...);
    else if constexpr (Is == shape::hook)
      walk_visited(
          leaf, at, [](T& one, auto& visit) { one.visit_parameters(visit); }, x, twin...);
    else
      walk_visited(
          leaf, at, [](T& one, auto& visit) { visit_parameters(one, visit); }, x, twin...);
  }
}

template <class Leaf, class T>
consteval shape shape_for() {
  if constexpr (is_as_state<Leaf>) return state_shape_of<T>;
  else return shape_of<T>;
}

template <class Leaf, class T, class... Twin>
void walk(Leaf& leaf, const path& at, T& x, Twin&... twin) {
  constexpr shape is = shape_for<Leaf, T>();
  if constexpr (is == shape::nothing) return;
  else if constexpr (is == shape::state) walk_state(leaf, at, x.value);
  else if constexpr (is == shape::pair || is == shape::elements || is == shape::described || is == shape::numbers) leaf(at, x, twin...);
  else if constexpr (is >= shape::accessed && is <= shape::befriended) walk_shown<is>(leaf, at, x, twin...);
  else if constexpr (is == shape::smart_pointer) walk_smart_pointer(leaf, at, x, twin...);
  else if constexpr (is == shape::optional) walk_optional(leaf, at, x, twin...);
  else if constexpr (is == shape::variant) walk_variant(leaf, at, x, twin...);
  else if constexpr (is == shape::tuple) walk_tuple(leaf, at, x, twin...);
  else if constexpr (is == shape::map || is == shape::range) walk_range(leaf, at, x, twin...);
  else if constexpr (is == shape::array)
    for (std::size_t i = 0; i < std::extent_v<T>; ++i) walk(leaf, path{&at, {}, static_cast<std::int64_t>(i)}, x[i], twin[i]...);
  else if constexpr (is == shape::aggregate)
    for_each_field(x, twin..., [&](std::string_view name, auto& field, auto&... twins) { walk(leaf, path{&at, name}, field, twins...); });
  else if constexpr (std::is_same_v<Leaf, as_state<erased_leaf>>)  // every member that a virtual hook shows might be in a frozen layer
    throw usage_error("cannot be part of a frozen layer, since its numbers are not contiguous; wrap it in gradsync::skip<>",
                      {.parameter = at.text()});
  else refuse<T, is>();
}

}  // namespace gradsync::detail
