// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

#include "gradsync/core/dtype.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace gradsync;

namespace {

constexpr dtype every_type[] = {dtype::float32, dtype::float64, dtype::int8,   dtype::int16,  dtype::int32,
                                dtype::int64,   dtype::uint8,   dtype::uint16, dtype::uint32, dtype::uint64};

}  // namespace

static_assert(element<float> && element<bool> && element<std::int64_t>);
static_assert(!element<long double> && !element<float*> && !element<std::string>);
static_assert(gradient_element<float> && gradient_element<double> && !gradient_element<int>);

TEST_CASE("a type and its dtype lead to each other") {
  for (const dtype type : every_type) CHECK(dispatch(type, []<class T>(std::type_identity<T>) { return dtype_of<T>(); }) == type);
}

TEST_CASE_TEMPLATE("the size of a dtype is the size of its C++ type", T, float, double, std::int8_t, std::int16_t, std::int32_t,
                   std::int64_t, std::uint8_t, std::uint16_t, std::uint32_t, std::uint64_t) {
  CHECK(size_of(dtype_of<T>()) == sizeof(T));
}

TEST_CASE("integer types that share size and sign share their dtype, whatever they are called") {
  CHECK(dtype_of<long>() == dtype_of<std::ptrdiff_t>());
  CHECK(dtype_of<unsigned long long>() == dtype::uint64);
  CHECK(dtype_of<std::size_t>() == dtype::uint64);
  CHECK(dtype_of<bool>() == dtype::uint8);
  CHECK(dtype_of<char16_t>() == dtype::uint16);
  CHECK(dtype_of<char>() == (std::is_signed_v<char> ? dtype::int8 : dtype::uint8));
}

TEST_CASE("a dtype is called as its C++ type: kind and number of bits") {
  for (const dtype type : every_type) {
    const std::string expected = dispatch(type, []<class T>(std::type_identity<T>) {
      const std::string kind = std::is_floating_point_v<T> ? "float" : std::is_signed_v<T> ? "int" : "uint";
      return kind + std::to_string(8 * sizeof(T));
    });
    CHECK(name_of(type) == expected);
  }
}
