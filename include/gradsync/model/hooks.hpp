// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// Whether a type has a function that shows its parameters, and whether that function is its own.
///
/// A derived class finds the hook of its base under the same name. Taking it would lose the parameters that the derived class adds, so a
/// hook counts only for the class that wrote it. Virtual hooks are checked when they run: parameter_visitor.hpp.
#pragma once

#include <concepts>     // exactly this class, not one derived from it
#include <string_view>  // names
#include <type_traits>  // virtual functions

#include "gradsync/model/parameter_access.hpp"

namespace gradsync {

class parameter_visitor;

namespace detail {

// Converts to T& and to no base class of T.
template <class T>
struct exactly {
  template <std::same_as<T> U>
  operator U&() const;
};

// Has the friends of T, and converts to nothing: a function that takes it takes everything, and is not meant for T.
template <class T>
struct anything {};

struct any_visit {
  template <class Member>
  void operator()(std::string_view name, Member& member);
  template <class Member>
  void state(std::string_view name, Member& member);
};

template <class T>
concept has_friend = requires(exactly<T>& x, any_visit& visit) {
  visit_parameters(x, visit);
}
&&!requires(anything<T> & x, any_visit& visit) { visit_parameters(x, visit); };

template <class T>
concept has_access_visit = requires(T& x, any_visit& visit) {
  parameter_access<T>::visit(x, visit);
};

// A template: takes every visitor.
template <class T>
concept has_template_hook = requires(T& x, any_visit& visit) {
  x.visit_parameters(visit);
};

// A plain function, virtual or not, perhaps compiled elsewhere.
template <class T>
concept has_erased_hook = !has_template_hook<T> && requires(T & x, parameter_visitor& visit) {
  x.visit_parameters(visit);
};

// The class that declares the hook which T has; void where C++ does not tell. Asked by its type, since nvcc 13 answers wrongly to
// `requires { &T::template f<X>; }`.
template <class T>
struct declarer_of_hook {
  using type = void;
};
template <class T>
requires requires { typename class_of_member<decltype(&T::template visit_parameters<any_visit>)>::type; }
struct declarer_of_hook<T> : class_of_member<decltype(&T::template visit_parameters<any_visit>)> {};
template <class T>
requires requires { typename class_of_member<decltype(&T::visit_parameters)>::type; }
struct declarer_of_hook<T> : class_of_member<decltype(&T::visit_parameters)> {};

template <class T>
concept has_virtual_hook = has_erased_hook<T> && std::is_polymorphic_v<T>;

template <class T>
concept has_own_hook =
    (has_template_hook<T> || has_erased_hook<T>)&&!has_virtual_hook<T> && std::is_same_v<typename declarer_of_hook<T>::type, T>;

}  // namespace detail
}  // namespace gradsync
