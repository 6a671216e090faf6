// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// The sentences with which a model's type is refused: each says what is the matter, and what to write instead.
///
///     refuse<float*, shape::pointer>();   // does not compile
#pragma once

#include "gradsync/model/shape.hpp"

namespace gradsync::detail {

// Types that have floats, but not where or how they are needed.
template <class T, shape Is>
constexpr void refuse_floats() {
  static_assert(Is != shape::is_const,
                "gradsync: what is const cannot be trained: drop the const from this parameter or gradient, or wrap the member in "
                "gradsync::skip<>");
  static_assert(Is != shape::long_floats,
                "gradsync: parameters are float or double: convert this long double container, or wrap it in gradsync::skip<>");
  static_assert(Is != shape::unequal_elements,
                "gradsync: a value and its gradient have the same element type: give both float, or both double");
  static_assert(Is != shape::scattered_floats,
                "gradsync: these floats are not contiguous: hold them in a std::vector<float>, or wrap the member in gradsync::skip<>");
  static_assert(Is != shape::scattered_numbers,
                "gradsync: these numbers of a state are not contiguous: hold them in a std::vector, which for bool is one of char, or wrap "
                "the member in gradsync::skip<>");
  static_assert(Is != shape::float_array,
                "gradsync: a bare array of floats is a parameter or a table, which cannot be told: write std::array<float, N> for a "
                "parameter, gradsync::skip<float[N]> for anything else");
}

// Types that do not say what they hold.
template <class T, shape Is>
constexpr void refuse_holders() {
  static_assert(Is != shape::pointer,
                "gradsync: a raw pointer says neither how long its memory is nor whose: hold a std::span<float> or a container, "
                "name the parameters in a visit_parameters friend, make a gradsync::tensor_table of structs of pointers, or wrap the "
                "pointer in gradsync::skip<>");
  static_assert(Is != shape::array_pointer,
                "gradsync: this pointer does not say what lies behind it, or how much: hold a std::vector<float>, or wrap it in "
                "gradsync::skip<>");
  static_assert(Is != shape::hash_map,
                "gradsync: the order of a hash map may differ between ranks: hold a std::map, name the parameters in a visit_parameters "
                "friend, or wrap it in gradsync::skip<>");
}

// Classes that say nothing, or only their base does.
template <class T, shape Is>
constexpr void refuse_classes() {
  static_assert(Is != shape::foreign_list,
                "gradsync: this class only inherits the member list of its base: give it its own, "
                "static constexpr auto parameters = gradsync::members_of<derived, &derived::weight, ...>");
  static_assert(Is != shape::foreign_hook,
                "gradsync: this class only inherits visit_parameters from its base, which does not know the members that it adds: give it "
                "its own, template <class Visit> void visit_parameters(Visit& visit) { base::visit_parameters(visit); "
                "visit(\"bias\", bias_); }");
  static_assert(Is != shape::base_class,
                "gradsync: an aggregate with a base class cannot be opened: write "
                "static constexpr auto parameters = gradsync::members<&net::weight, ...> in it");
  static_assert(Is != shape::too_many_fields,
                "gradsync: only aggregates of up to 32 fields, none of them a reference, are opened: write "
                "static constexpr auto parameters = gradsync::members<&net::weight, ...> in it, or a visit_parameters friend");
  static_assert(Is != shape::polymorphic,
                "gradsync: an object of a derived class may stand here, and it cannot be told where its parameters are: write "
                "virtual void visit_parameters(gradsync::parameter_visitor& visit) in the base, and override it");
  static_assert(Is != shape::unknown,
                "gradsync: it cannot be told where this type has its parameters: write "
                "static constexpr auto parameters = gradsync::members<&net::weight, ...> in it, "
                "specialise gradsync::parameter_access for it, or wrap it in gradsync::skip<>");
}

/// Does not compile, for the one reason that `Is` gives.
template <class T, shape Is>
constexpr void refuse() {
  refuse_floats<T, Is>();
  refuse_holders<T, Is>();
  refuse_classes<T, Is>();
}

}  // namespace gradsync::detail
