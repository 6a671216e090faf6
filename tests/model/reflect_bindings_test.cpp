// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

#include "gradsync/model/reflect_bindings.hpp"

#include <doctest/doctest.h>

#include <cstddef>

namespace {

struct none {};
struct one {
  int a = 5;
};
struct with_array {
  int a = 1;
  int b[3] = {2, 3, 4};
};
struct most {
  int f[1] = {0}, a1 = 1, a2 = 2, a3 = 3, a4 = 4, a5 = 5, a6 = 6, a7 = 7, a8 = 8, a9 = 9, a10 = 10, a11 = 11, a12 = 12, a13 = 13, a14 = 14,
      a15 = 15, a16 = 16, a17 = 17, a18 = 18, a19 = 19, a20 = 20, a21 = 21, a22 = 22, a23 = 23, a24 = 24, a25 = 25, a26 = 26, a27 = 27,
      a28 = 28, a29 = 29, a30 = 30, a31 = 31;
};

using gradsync::detail::with_fields;

}  // namespace

TEST_CASE("the fields arrive in order, as references, arrays as arrays") {
  none nothing;
  CHECK(with_fields<0>(nothing, [](auto&... fields) { return sizeof...(fields); }) == 0);
  one single;
  with_fields<1>(single, [](int& a) { a = 6; });
  CHECK(single.a == 6);
  with_array two;
  CHECK(with_fields<2>(two, [](int& a, int(&b)[3]) { return a + b[0] + b[1] + b[2]; }) == 10);
}

TEST_CASE("as many fields as promised can be opened") {
  static_assert(gradsync::detail::most_fields == 32);
  most all;
  const int sum = with_fields<32>(all, [](int(&first)[1], auto&... rest) {
    int expected = 0, wrong = first[0];
    ((wrong += rest != ++expected), ...);
    return wrong;
  });
  CHECK(sum == 0);
}
