// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

#include "gradsync/model/ties.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace gradsync;

namespace {

// A parameter whose value and gradient are stretches of memory.
struct stretch {
  float* first;
  std::size_t count;
};
memory read(void* object) {
  auto& s = *static_cast<stretch*>(object);
  return {reinterpret_cast<std::byte*>(s.first), s.count};
}
parameter make(std::string name, stretch& value, stretch& grad) {
  return {.count = value.count,
          .value_access = {.read = read},
          .grad_access = {.read = read},
          .aliases = {{std::move(name), &value, &value, &grad}}};
}

}  // namespace

TEST_CASE("one value and one gradient are one entry, under all names and in the place of the first") {
  float v[10] = {}, g[10] = {};
  stretch v1{v, 4}, g1{g, 4}, v2{v + 4, 6}, g2{g + 4, 6}, v3{v, 4}, g3{g, 4};
  const auto once = detail::merge_tied({make("a", v1, g1), make("b", v2, g2), make("c", v3, g3)});
  REQUIRE(once.size() == 2);
  CHECK(once[0].aliases.size() == 2);
  CHECK(once[0].aliases[1].name == "c");
  CHECK(once[1].name() == "b");
}

TEST_CASE("half a tie is an error that names both") {
  float v[10] = {}, g[10] = {};
  stretch v1{v, 4}, g1{g, 4}, g2{g + 4, 4}, v2{v + 2, 4}, v3{v + 4, 4}, g3{g + 3, 4};
  CHECK_THROWS_WITH_AS(detail::merge_tied({make("a", v1, g1), make("b", v1, g2)}), doctest::Contains("shares its value with \"a\""),
                       usage_error);
  CHECK_THROWS_WITH_AS(detail::merge_tied({make("a", v1, g1), make("b", v2, g2)}), doctest::Contains("its value overlaps that of \"a\""),
                       usage_error);
  CHECK_THROWS_WITH_AS(detail::merge_tied({make("a", v1, g1), make("b", v3, g3)}), doctest::Contains("its gradient overlaps that of \"a\""),
                       usage_error);
}
