// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// What a model's author may write to say where its parameters are. A plain aggregate needs none of it.
///
/// A class with private members, and a struct that cannot be opened (bit-fields, a base class, more than 32 members), lists those that hold
/// parameters; the names are read from the list:
///
///     class net {
///       linear first_, second_;
///      public:
///       static constexpr auto parameters = gradsync::members<&net::first_, &net::second_>;
///     };
///
/// or, where names or order are to be other than the members', gives a friend, whose first argument must be exactly its class:
///
///     friend void visit_parameters(net& self, auto& visit) { visit("first", self.first_); visit("second", *self.second_); }
///
/// or a public member function, which a derived class has to write anew:
///
///     template <class Visit> void visit_parameters(Visit& visit) { visit("first", first_); visit.state("mean", mean_); }
///
/// or, where objects of derived classes stand behind pointers to their base, a virtual one: parameter_visitor.hpp.
///
/// A type of somebody else gets a specialisation of `parameter_access`, with one of
///
///     template <> struct gradsync::parameter_access<their::tensor> {
///       static std::span<float> value(their::tensor& t);       // alone: floats like a std::vector<float>
///       static std::span<float> grad(their::tensor& t);        // and this: a parameter that holds its gradient
///     };
///     template <> struct gradsync::parameter_access<their::layer> {
///       static constexpr auto parameters = gradsync::members<&their::layer::weight, &their::layer::bias>;
///     };
///     template <> struct gradsync::parameter_access<their::module> {
///       static void visit(their::module& m, auto& visit) { visit("weight", m.weight()); }   // lvalues, in the same order at each call
///     };
///
/// A specialisation with `value` may add `static constexpr auto space = gradsync::memory_space::cuda;` where the elements lie on a device.
/// An adapter whose type knows its element type at run time only has instead of all these
///
///       static gradsync::parameter describe(their::tensor& t);   // one alias, whose name is filled in; `parameter` is &t
///
/// In all hooks `visit.state("mean", m.mean())` says what belongs to the model and is not trained (state.hpp). `skip<T>` wraps a member
/// that gradsync shall not look at: `gradsync::skip<std::vector<float>> cache;`.
#pragma once

#include <type_traits>  // is_same

namespace gradsync {

/// Specialise it for types that you do not own. See the head of this file.
template <class T>
struct parameter_access {};

/// The members of `Owner` (void: the class that at least one of them belongs to) that hold parameters.
template <class Owner, auto... Member>
struct member_list {};

/// The list for a class with members of its own.
template <auto... Member>
inline constexpr member_list<void, Member...> members{};

/// The list for a class all of whose listed members are inherited (or which has none): C++ doesn't tell whose list that is.
template <class Owner, auto... Member>
inline constexpr member_list<Owner, Member...> members_of{};

/// Holds a T that is no parameter, whatever it looks like.
template <class T>
struct skip {
  T value{};

  constexpr operator T&() { return value; }
  constexpr operator const T&() const { return value; }
};

namespace detail {

template <class T>
inline constexpr bool is_skip = false;
template <class T>
inline constexpr bool is_skip<skip<T>> = true;

template <class T>
inline constexpr bool is_member_list = false;
template <class Owner, auto... Member>
inline constexpr bool is_member_list<member_list<Owner, Member...>> = true;

template <class T>
concept lists_members = requires {
  requires is_member_list<std::remove_cvref_t<decltype(T::parameters)>>;
};

template <class T>
struct class_of_member;
template <class Field, class Class>
struct class_of_member<Field Class::*> {
  using type = Class;
};

// A derived class finds its base's list under the same name; taking it would lose the parameters that the derived class adds.
template <class T, class Owner, auto... Member>
consteval bool is_list_of(member_list<Owner, Member...>) {
  if constexpr (std::is_void_v<Owner>) return (std::is_same_v<typename class_of_member<decltype(Member)>::type, T> || ...);
  else return std::is_same_v<Owner, T>;
}

}  // namespace detail
}  // namespace gradsync
