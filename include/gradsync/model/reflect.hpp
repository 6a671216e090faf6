// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// Opens a plain aggregate: how many fields it has, what they are called, and a reference to each.
///
/// The fields are counted by trying how many initialisers the type takes, then bound by structured bindings; their names are read from what
/// the compiler prints for a pointer to them. All of it happens at compile time and costs nothing at run time.
/// After Polukhin's Boost.PFR and Kris Jusiak's reflect; C arrays count as one field here.
///
/// Limits: up to 32 fields, no base class, no bit-field, no union. A wrong count cannot pass silently: the bindings would not compile.
///
///     struct layer { std::vector<float> weight, bias; };
///     for_each_field(l, [](std::string_view name, auto& field) { ... });   // "weight", then "bias"
#pragma once

#include <cstddef>      // counts
#include <cstdlib>      // conversions that never happen
#include <string_view>  // names
#include <tuple>        // picks the n-th field
#include <type_traits>  // is_aggregate
#include <utility>      // index_sequence

#include "gradsync/model/reflect_bindings.hpp"

namespace gradsync {
namespace detail {

// Stands for an initialiser of any type, but not for a copy of the whole aggregate. Never converted at run time; defined, since
// clang asks for it where the standard library's constructors are tried.
template <class Whole>
struct any_field {
  std::size_t position;
  template <class T>
  requires(!std::is_same_v<std::remove_cvref_t<T>, Whole>) operator T() const noexcept { std::abort(); }
};

// Stands for an initialiser of a base class of the aggregate, and for nothing else.
template <class Whole>
struct any_base {
  template <class T>
  requires(std::is_base_of_v<std::remove_cvref_t<T>, Whole> && !std::is_same_v<std::remove_cvref_t<T>, Whole>) operator T() const noexcept {
    std::abort();
  }
};

template <class T, std::size_t... Before, std::size_t... After>
consteval bool takes_around_braces(std::index_sequence<Before...>, std::index_sequence<After...>) {
  return requires { T{any_field<T>{Before}..., {}, any_field<T>{After}...}; };
}
template <class T, std::size_t... I>
consteval bool takes(std::index_sequence<I...>) {
  return requires { T{any_field<T>{I}...}; };
}
template <class T, std::size_t... I>
consteval bool takes_base(std::index_sequence<I...>) {
  return requires { T{any_base<T>{}, any_field<T>{I}...}; };
}

// More initialisers than this are not tried: an array field takes one for each of its elements.
inline constexpr std::size_t most_initialisers = 128;

// The number of initialisers that the aggregate takes, where each element of an array field counts. One past the limit if there are more.
template <class T, std::size_t Count = 0>
consteval std::size_t count_initialisers() {
  if constexpr (Count > most_initialisers) return Count;
  else if constexpr (takes<T>(std::make_index_sequence<Count>{}) && !takes<T>(std::make_index_sequence<Count + 1>{})) return Count;
  else return count_initialisers<T, Count + 1>();
}

// How many of the initialisers belong to the field that the one at `Position` opens: braces there leave room for all but those.
template <class T, std::size_t All, std::size_t Position, std::size_t Width = 1>
consteval std::size_t width_at() {
  if constexpr (Position + Width > All) return 1;  // no default, hence not to be told: a single field
  else if constexpr (takes_around_braces<T>(std::make_index_sequence<Position>{}, std::make_index_sequence<All - Position - Width>{}))
    return Width;
  else return width_at<T, All, Position, Width + 1>();
}

template <class T, std::size_t All, std::size_t Position = 0>
consteval std::size_t count_fields_from() {
  if constexpr (Position >= All) return 0;
  else return 1 + count_fields_from<T, All, Position + width_at<T, All, Position>()>();
}

// A union shows its members' addresses without building any of them, so a variable of it exists for every type. Only addresses inside it
// are used, at compile time; nothing of it is left in the program.
template <class T>
union unbuilt {
  constexpr unbuilt() : nothing() {}
  constexpr ~unbuilt() {}
  constexpr bool exists() const { return true; }
  char nothing;
  T value;
};
template <class T>
inline const unbuilt<T> unbuilt_of{};  // clang 14: a union is no literal type unless all its members are
template <class T>
requires requires { typename std::bool_constant<unbuilt<T>{}.exists()>; }
inline constexpr unbuilt<T> unbuilt_of<T>{};  // g++ would register the destructor of the other one

// clang 14 takes the address of a field as a template argument only inside a class.
template <class Pointer>
struct address {
  Pointer to;
};
template <class Pointer, address<Pointer> Field>  // clang prints only parameters that have a name
constexpr std::string_view printed_address() {
  return __PRETTY_FUNCTION__;
}
template <auto Member>
constexpr std::string_view printed_member() {
  return __PRETTY_FUNCTION__;
}

// The last identifier in what a compiler printed: `... P = {&unbuilt_of.value.weight}]`, `... auto Member = &net::weight; std::string_view
// = ...]`.
constexpr std::string_view last_identifier(std::string_view printed) {
  constexpr auto in_identifier = [](char c) {
    return c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || static_cast<unsigned char>(c) >= 0x80;
  };
  if (const auto aliases = printed.find("; std::"); aliases != printed.npos) printed = printed.substr(0, aliases);
  std::size_t end = printed.size();
  while (end > 0 && !in_identifier(printed[end - 1])) --end;
  std::size_t begin = end;
  while (begin > 0 && in_identifier(printed[begin - 1])) --begin;
  return printed.substr(begin, end - begin);
}

template <class T, std::size_t Count, std::size_t I>
constexpr std::string_view name_of_field() {
  constexpr auto pointer = with_fields<Count>(unbuilt_of<T>.value, [](auto&... fields) { return std::get<I>(std::tuple(&fields...)); });
  using type = std::remove_const_t<decltype(pointer)>;
  return last_identifier(printed_address<type, address<type>{pointer}>());
}

template <class T, std::size_t Count, std::size_t... I>
constexpr auto names_of_fields(std::index_sequence<I...>) {
  struct list {
    std::string_view at[Count + 1];
  };
  return list{{name_of_field<T, Count, I>()..., {}}};
}

}  // namespace detail

/// The name of the member that a pointer to member points to: `member_name<&net::weight>` is "weight".
template <auto Member>
inline constexpr std::string_view member_name = detail::last_identifier(detail::printed_member<Member>());

/// Whether the aggregate T has a base class (one that it must be initialised with), so that its fields cannot be bound.
template <class T>
inline constexpr bool has_base = [] {
  constexpr std::size_t all = detail::count_initialisers<T>();
  return detail::takes_base<T>(std::index_sequence<>{}) || detail::takes_base<T>(std::make_index_sequence<(all > 0 ? all - 1 : 0)>{});
}();

/// The number of fields of the aggregate T, arrays counted once; more than `detail::most_fields` if they cannot be opened.
template <class T>
inline constexpr std::size_t field_count = [] {
  constexpr std::size_t all = detail::count_initialisers<T>();
  if constexpr (all > detail::most_initialisers) return all;
  else return detail::count_fields_from<T, all>();
}();

/// The names of the fields of the aggregate T, in order: `field_names<T>.at[i]`.
template <class T>
inline constexpr auto field_names = detail::names_of_fields<T, field_count<T>>(std::make_index_sequence<field_count<T>>{});

/// Calls `f(name, field)` for each field of the aggregate `x`, in order of declaration.
template <class T, class F>
constexpr void for_each_field(T& x, F&& f) {
  using plain = std::remove_const_t<T>;
  detail::with_fields<field_count<plain>>(x, [&f](auto&... fields) {
    [[maybe_unused]] std::size_t i = 0;
    (f(field_names<plain>.at[i++], fields), ...);
  });
}

/// Calls `f(name, field, twin)` for each field of two aggregates of one type.
template <class T, class F>
constexpr void for_each_field(T& x, T& twin, F&& f) {
  using plain = std::remove_const_t<T>;
  detail::with_fields<field_count<plain>>(x, [&](auto&... fields) {
    detail::with_fields<field_count<plain>>(twin, [&](auto&... twins) {
      [[maybe_unused]] std::size_t i = 0;
      (f(field_names<plain>.at[i++], fields, twins), ...);
    });
  });
}

}  // namespace gradsync
