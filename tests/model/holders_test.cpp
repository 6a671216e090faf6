// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

#include "gradsync/model/holders.hpp"

#include <doctest/doctest.h>

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

using namespace gradsync::detail;

namespace {

struct item {};
struct declared;

}  // namespace

TEST_CASE("pointers that know what they point to") {
  CHECK(smart_pointer<std::unique_ptr<item>>);
  CHECK(smart_pointer<std::shared_ptr<item>>);
  CHECK_FALSE(smart_pointer<std::unique_ptr<item[]>>);
  CHECK_FALSE(smart_pointer<std::unique_ptr<declared>>);
  CHECK_FALSE(smart_pointer<std::weak_ptr<item>>);
  CHECK_FALSE(smart_pointer<std::span<item>>);
  CHECK(has_element_pointer<std::unique_ptr<item[]>>);
  CHECK(has_element_pointer<std::shared_ptr<void>>);
}

TEST_CASE("optionals, variants, tuples, containers and maps") {
  CHECK(optional_like<std::optional<item>>);
  CHECK_FALSE(optional_like<std::unique_ptr<item>>);
  CHECK(variant_like<std::variant<int, item>>);
  CHECK(alternatives_of<std::variant<int, item>>::type::size == 2);
  CHECK_FALSE(variant_like<std::optional<item>>);
  CHECK(tuple_like<std::tuple<int, item>>);
  CHECK(tuple_like<std::pair<int, item>>);
  CHECK_FALSE(tuple_like<std::vector<item>>);
  CHECK(value_range<std::vector<item>>);
  CHECK(value_range<std::array<item, 2>>);
  CHECK_FALSE(value_range<std::vector<bool>>);
  CHECK(map_like<std::map<int, item>>);
  CHECK_FALSE(map_like<std::vector<item>>);
  CHECK(has_hash<std::unordered_map<int, item>>);
  CHECK_FALSE(has_hash<std::map<int, item>>);
  CHECK(text_like<std::string>);
  CHECK_FALSE(text_like<std::vector<char>>);
}
