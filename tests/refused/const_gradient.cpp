// expect: gradsync: what is const cannot be trained
// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

#include <span>
#include <vector>

#include "gradsync/model/for_each_parameter.hpp"

struct param {
  std::vector<float> value;
  std::span<const float> grad;
};
struct net {
  param weight;
};

int main() {
  net model{};
  return static_cast<int>(gradsync::parameters_of(model).size());
}
