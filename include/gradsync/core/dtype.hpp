// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// Element types that gradsync can move and add, as a run-time value.
///
/// Gradients are float32 or float64; the other types serve the user's own small collectives (counts, flags, minima).
///
///     dispatch(type, []<class T>(std::type_identity<T>) { ... });   // T is the C++ type that `type` stands for
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace gradsync {

enum class dtype : std::uint8_t { float32, float64, int8, int16, int32, int64, uint8, uint16, uint32, uint64 };

/// Types with a dtype: every arithmetic type of 1, 2, 4 or 8 bytes.
template <class T>
concept element = std::is_arithmetic_v<T> &&(sizeof(T) <= 8);

/// Types a gradient may have.
template <class T>
concept gradient_element = std::same_as<T, float> || std::same_as<T, double>;

namespace detail {
constexpr int log2_bytes(std::size_t bytes) { return bytes == 1 ? 0 : bytes == 2 ? 1 : bytes == 4 ? 2 : 3; }
}  // namespace detail

template <element T>
constexpr dtype dtype_of() {
  if constexpr (std::is_floating_point_v<T>) return sizeof(T) == 4 ? dtype::float32 : dtype::float64;
  else return static_cast<dtype>(static_cast<int>(std::is_signed_v<T> ? dtype::int8 : dtype::uint8) + detail::log2_bytes(sizeof(T)));
}

/// Calls `f(std::type_identity<T>{})` with the C++ type that `type` stands for.
template <class F>
constexpr decltype(auto) dispatch(dtype type, F&& f) {
  switch (type) {
    case dtype::float32: return f(std::type_identity<float>{});
    case dtype::float64: return f(std::type_identity<double>{});
    case dtype::int8: return f(std::type_identity<std::int8_t>{});
    case dtype::int16: return f(std::type_identity<std::int16_t>{});
    case dtype::int32: return f(std::type_identity<std::int32_t>{});
    case dtype::int64: return f(std::type_identity<std::int64_t>{});
    case dtype::uint8: return f(std::type_identity<std::uint8_t>{});
    case dtype::uint16: return f(std::type_identity<std::uint16_t>{});
    case dtype::uint32: return f(std::type_identity<std::uint32_t>{});
    default: return f(std::type_identity<std::uint64_t>{});
  }
}

/// The same for the types of gradients: float32 or float64.
template <class F>
constexpr decltype(auto) dispatch_gradient(dtype type, F&& f) {
  return type == dtype::float64 ? f(std::type_identity<double>{}) : f(std::type_identity<float>{});
}

/// Bytes of one element.
constexpr std::size_t size_of(dtype type) {
  constexpr std::size_t bytes[] = {4, 8, 1, 2, 4, 8, 1, 2, 4, 8};
  return bytes[static_cast<int>(type)];
}

constexpr const char* name_of(dtype type) {
  constexpr const char* names[] = {"float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"};
  return names[static_cast<int>(type)];
}

static_assert(dtype_of<float>() == dtype::float32 && dtype_of<bool>() == dtype::uint8 && dtype_of<long long>() == dtype::int64);

}  // namespace gradsync
