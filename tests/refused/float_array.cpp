// expect: gradsync: a bare array of floats is a parameter or a table, which cannot be told
// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

#include <vector>

#include "gradsync/model/for_each_parameter.hpp"

struct param {
  std::vector<float> value, grad;
};
struct net {
  param bias;
  float weight[4][2];
};

int main() {
  net model{};
  return static_cast<int>(gradsync::parameters_of(model).size());
}
