// expect: gradsync: this pointer does not say what lies behind it, or how much
// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

#include <memory>

#include "gradsync/model/for_each_parameter.hpp"

struct net {
  std::unique_ptr<float[]> value, grad;
};

int main() {
  net model{};
  return static_cast<int>(gradsync::parameters_of(model).size());
}
