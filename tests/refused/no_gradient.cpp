// expect: gradsync: this container of floats has no gradient
// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

#include <vector>

#include "gradsync/model/for_each_parameter.hpp"

struct net {
  std::vector<float> weight;
};

int main() {
  net model{};
  return static_cast<int>(gradsync::parameters_of(model).size());
}
