// expect: gradsync: the order of a hash map may differ between ranks
// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

#include <string>
#include <unordered_map>
#include <vector>

#include "gradsync/model/for_each_parameter.hpp"

struct param {
  std::vector<float> value, grad;
};
struct net {
  std::unordered_map<std::string, param> layers;
};

int main() {
  net model{};
  return static_cast<int>(gradsync::parameters_of(model).size());
}
