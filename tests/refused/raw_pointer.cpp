// expect: gradsync: a raw pointer says neither how long its memory is nor whose
// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

#include "gradsync/model/for_each_parameter.hpp"

struct net {
  float* weight;
  float* grad;
};

int main() {
  net model{};
  return static_cast<int>(gradsync::parameters_of(model).size());
}
