// expect: gradsync: this type holds its gradient itself
// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

#include <vector>

#include "gradsync/model/for_each_parameter.hpp"

struct param {
  std::vector<float> value, grad;
};
struct net {
  param weight;
};

int main() {
  net model, grads;
  return static_cast<int>(gradsync::parameters_of(model, grads).size());
}
