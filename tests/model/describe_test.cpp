// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

#include "gradsync/model/describe.hpp"

#include <doctest/doctest.h>

#include <span>
#include <vector>

TEST_CASE("the table shows name, type, count and bytes, ties once, and the sum") {
  struct view {
    std::span<float> value, grad;
  };
  struct param {
    std::vector<double> value, grad;
  };
  struct net {
    view encoder;
    param scale;
    view decoder;
  };
  float values[12] = {}, grads[12] = {};
  const net model{{values, grads}, {{1, 2, 3}, {}}, {values, grads}};
  CHECK(gradsync::describe(model) ==
        "parameter          type              count         bytes\n"
        "encoder = decoder  float32              12            48\n"
        "scale              float64               3            24\n"
        "2 parameters                            15            72\n");
}

TEST_CASE("a model with its gradients apart is described from both, and a list from itself") {
  struct net {
    std::vector<float> weight;
  } model{{1, 2}}, grads;
  const char* const table =
      "parameter    type              count         bytes\n"
      "weight       float32               2             8\n"
      "1 parameter                        2             8\n";
  CHECK(gradsync::describe(model, grads) == table);
  auto list = gradsync::parameters_of(model, grads);
  CHECK(gradsync::describe(list) == table);
}
