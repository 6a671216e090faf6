// expect: gradsync: it cannot be told where this type has its parameters
// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

#include <vector>

#include "gradsync/model/for_each_parameter.hpp"

struct param {
  std::vector<float> value, grad;
};
class net {
 public:
  net() : weight_{} {}

 private:
  param weight_;
};

int main() {
  net model{};
  return static_cast<int>(gradsync::parameters_of(model).size());
}
