// expect: gradsync: an object of a derived class may stand here
// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

#include <memory>
#include <vector>

#include "gradsync/model/for_each_parameter.hpp"

struct param {
  std::vector<float> value, grad;
};
struct layer {
  virtual ~layer() = default;
  param weight;
};
struct net {
  std::vector<std::unique_ptr<layer>> layers;
};

int main() {
  net model{};
  return static_cast<int>(gradsync::parameters_of(model).size());
}
