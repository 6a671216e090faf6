// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

#include "gradsync/model/path.hpp"

#include <doctest/doctest.h>

using gradsync::detail::path;

TEST_CASE("a path is the names and indices from the model down") {
  const path top, layers{&top, "layers"}, third{&layers, {}, 3}, weight{&third, "weight"};
  CHECK(top.text().empty());
  CHECK(layers.text() == "layers");
  CHECK(third.text() == "layers[3]");
  CHECK(weight.text() == "layers[3].weight");
  const path first{&top, {}, -1}, inner{&first, {}, 2};
  CHECK(inner.text() == "[-1][2]");
}
