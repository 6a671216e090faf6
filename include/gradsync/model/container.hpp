// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// What counts as contiguous floats, and how they are reached once the type is forgotten.
///
/// Everything with `data()` and `size()` over floats fits: std::vector, std::array, std::span, Eigen's Matrix, Array and Map (Eigen is not
/// included here), and every type for which `parameter_access` has `value`.
///
///     static_assert(float_container<std::vector<float>> && float_container<Eigen::MatrixXf>);
///     accessor a = accessor_of<std::vector<float>, std::vector<float>>();   // of a gradient, beside the type of its value
#pragma once

#include <concepts>     // what a type can do
#include <cstddef>      // std::byte
#include <new>          // Eigen's maps are pointed elsewhere by making them anew
#include <span>         // views that can be pointed elsewhere
#include <type_traits>  // element types
#include <utility>      // declval

#include "gradsync/core/error.hpp"
#include "gradsync/model/parameter.hpp"
#include "gradsync/model/parameter_access.hpp"

namespace gradsync {
namespace detail {

template <class T>
concept contiguous = requires(T& x) {
  { x.size() } -> std::convertible_to<std::size_t>;
  requires std::is_pointer_v<decltype(x.data())>;
};

template <class T>
concept has_access_value = requires(T& x) {
  { parameter_access<T>::value(x) } -> contiguous;
};
template <class T>
concept has_access_grad = requires(T& x) {
  { parameter_access<T>::grad(x) } -> contiguous;
};

template <class T>
concept has_access_describe = requires(T& x) {
  { parameter_access<T>::describe(x) } -> std::same_as<parameter>;
};

// Where the elements of a T lie.
template <class T>
constexpr memory_space space_of() {
  if constexpr (requires { memory_space{parameter_access<T>::space}; }) return parameter_access<T>::space;
  else return memory_space::host;
}

template <class T>
constexpr decltype(auto) elements_of(T& x) {
  if constexpr (has_access_value<T>) return parameter_access<T>::value(x);
  else return (x);
}

}  // namespace detail

/// The type of the elements of a container; const where they cannot be written.
template <class T>
using element_type = std::remove_pointer_t<decltype(detail::elements_of(std::declval<T&>()).data())>;

/// Contiguous floats of any precision, perhaps const.
template <class T>
concept float_container = std::is_class_v<T> &&
    (detail::contiguous<T> || detail::has_access_value<T>)&&std::is_floating_point_v<element_type<T>>;

namespace detail {

// A map that was given its shape, and no memory yet, has no elements.
template <class Elements>
memory memory_of(Elements&& elements) {
  auto* const data = reinterpret_cast<std::byte*>(elements.data());
  return {data, data == nullptr ? 0 : static_cast<std::size_t>(elements.size())};
}

template <class T>
memory read(void* object) {
  return memory_of(elements_of(*static_cast<T*>(object)));
}
template <class T>
memory read_grad(void* object) {
  return memory_of(parameter_access<T>::grad(*static_cast<T*>(object)));
}

// Eigen's maps and matrices all have a `resize`, but only its owning types take the shape of another.
template <class T>
concept is_eigen = requires {
  T::SizeAtCompileTime;
};

template <class T, class Like>
void resize(void* object, const void* like) {
  T& x = *static_cast<T*>(object);
  const Like& other = *static_cast<const Like*>(like);
  if constexpr (is_eigen<T>) x.resizeLike(other);
  else x.resize(static_cast<std::size_t>(other.size()));
}
template <class T, class Like>
concept resizable_like = contiguous<T> && contiguous<const Like> &&
    ((is_eigen<T> && is_eigen<Like> && requires(T & x, const Like& other) { x.resizeLike(other); }) ||
     (!is_eigen<T> && requires(T & x, std::size_t count) { x.resize(count); }));

template <class T>
inline constexpr bool is_dynamic_span = false;
template <class E>
inline constexpr bool is_dynamic_span<std::span<E>> = true;

template <class T>
void point(void* object, std::byte* data, std::size_t count) {
  *static_cast<T*>(object) = T(reinterpret_cast<element_type<T>*>(data), count);
}

// Eigen::Map without strides. It keeps its shape; Eigen documents making it anew in place as the way to point it elsewhere.
template <class T>
inline constexpr bool is_eigen_map = false;
template <template <class, int, class> class Map, class Matrix, int Options, class Stride>
requires(is_eigen<Map<Matrix, Options, Stride>>&& Stride::InnerStrideAtCompileTime == 0 &&
         Stride::OuterStrideAtCompileTime == 0) inline constexpr bool is_eigen_map<Map<Matrix, Options, Stride>> =
    std::is_constructible_v<Map<Matrix, Options, Stride>, element_type<Map<Matrix, Options, Stride>>*, long, long>;

template <class T>
void point_map(void* object, std::byte* data, std::size_t count) {
  const auto rows = static_cast<T*>(object)->rows(), cols = static_cast<T*>(object)->cols();
  if (data != nullptr && static_cast<std::size_t>(rows * cols) != count)
    throw usage_error("the map of a gradient needs the shape of its value before it gets memory: make it as (nullptr, rows, columns)");
  ::new (object) T(reinterpret_cast<element_type<T>*>(data), rows, cols);
}

// A map or block of Eigen may step over elements that are not its own.
template <class T>
bool has_gaps(const T& x) {
  if constexpr (requires {
                  x.innerStride();
                  x.outerStride();
                  x.innerSize();
                  x.outerSize();
                })
    return x.size() > 0 && ((x.innerStride() != 1 && x.innerSize() > 1) || (x.outerSize() > 1 && x.outerStride() != x.innerSize()));
  else return false;
}

}  // namespace detail

/// How to reach the floats of a T; `Like` is the type whose shape it may be asked to take.
template <float_container T, class Like = T>
constexpr accessor accessor_of() {
  accessor a{.read = detail::read<T>, .resize = nullptr, .point = nullptr};
  if constexpr (detail::resizable_like<T, Like> && !detail::has_access_value<T>) a.resize = detail::resize<T, Like>;
  if constexpr (detail::is_dynamic_span<T>) a.point = detail::point<T>;
  if constexpr (detail::is_eigen_map<T>) a.point = detail::point_map<T>;
  return a;
}

}  // namespace gradsync
