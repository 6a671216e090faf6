// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// What holds other objects: smart pointers, optionals, variants, tuples, maps and containers, told by what they can do.
///
/// So that <memory>, <optional>, <variant> and <map> need not be included here, and other libraries' types of the same shape fit too.
#pragma once

#include <concepts>     // what they can do
#include <cstddef>      // counts
#include <type_traits>  // what they hold
#include <utility>      // tuple_size

namespace gradsync::detail {

template <class T>
concept has_element_pointer = std::is_class_v<T> && requires(T& x) {
  { x.get() } -> std::same_as<typename T::element_type*>;
};

/// std::unique_ptr, std::shared_ptr; not those to arrays, which do not know how long theirs is, nor to types that are only declared.
template <class T>
concept smart_pointer = has_element_pointer<T> && requires(T& x) {
  { *x } -> std::same_as<typename T::element_type&>;
  sizeof(typename T::element_type);
};

template <class T>
concept optional_like = std::is_class_v<T> && requires(T& x) {
  { x.has_value() } -> std::same_as<bool>;
  { *x } -> std::same_as<typename T::value_type&>;
};

template <class... T>
struct type_list {
  static constexpr std::size_t size = sizeof...(T);
};

template <class T>
struct alternatives_of;
template <template <class...> class Variant, class... T>
struct alternatives_of<Variant<T...>> {
  using type = type_list<T...>;
};

template <class T>
concept variant_like = std::is_class_v<T> && requires(const T& x) {
  { x.valueless_by_exception() } -> std::same_as<bool>;
  { x.index() } -> std::convertible_to<std::size_t>;
  typename alternatives_of<T>::type;
};

template <class T>
concept tuple_like = std::is_class_v<T> && requires {
  std::tuple_size<T>::value;
};

template <class T>
concept sized_values = requires(T& x) {
  typename T::value_type;
  x.size();
}
&&!std::is_same_v<typename T::value_type, T>;

/// Anything whose elements can be gone through, and written.
template <class T>
concept value_range = sized_values<T> && requires(T& x) {
  { *x.begin() } -> std::same_as<typename T::value_type&>;
  x.end();
};

template <class T>
concept map_like = value_range<T> && requires {
  typename T::key_type;
  typename T::mapped_type;
};

template <class T>
concept has_hash = requires {
  typename T::hasher;
};

template <class T>
concept text_like = sized_values<T> && requires {
  typename T::traits_type;
};

}  // namespace gradsync::detail
