// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

#include "gradsync/model/state.hpp"

#include <doctest/doctest.h>

#include <vector>

TEST_CASE("what is wrapped is used as what it is") {
  gradsync::state<std::vector<float>> mean{{1, 2}};
  mean->push_back(3);
  (*mean)[0] = 5;
  std::vector<float>& used = mean;
  CHECK(used == std::vector<float>{5, 2, 3});
  mean = std::vector<float>(4, 1.0f);
  CHECK(mean.value.size() == 4);
  mean = {{7, 8}};
  CHECK(mean.value == std::vector<float>{7, 8});
  const gradsync::state<std::vector<float>> copy = mean;
  CHECK(copy->size() == 2);
  CHECK((*copy)[1] == 8);

  gradsync::state<long> steps;
  steps = 5;
  ++steps;
  steps += 2;
  CHECK(steps == 8);

  gradsync::frozen<float[3]> table{{1, 2, 3}};
  CHECK(table.value[2] == 3);
}

TEST_CASE("an entry reads where the numbers are now, and says how many bytes they take") {
  std::vector<double> numbers(3);
  const gradsync::state_entry s{.name = "mean",
                                .type = gradsync::dtype::float64,
                                .count = 3,
                                .access = {.read = [](void* x) -> gradsync::memory {
                                  auto& v = *static_cast<std::vector<double>*>(x);
                                  return {reinterpret_cast<std::byte*>(v.data()), v.size()};
                                }},
                                .object = &numbers};
  CHECK(s.bytes() == 24);
  numbers = std::vector<double>(5);
  CHECK(s.value().count == 5);
  CHECK(s.value().data == reinterpret_cast<std::byte*>(numbers.data()));
  static_assert(gradsync::detail::is_state<gradsync::state<int>> && !gradsync::detail::is_state<int>);
}
