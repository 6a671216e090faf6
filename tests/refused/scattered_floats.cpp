// expect: gradsync: these floats are not contiguous
// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

#include <deque>

#include "gradsync/model/for_each_parameter.hpp"

struct net {
  std::deque<float> weight;
};

int main() {
  net model{};
  return static_cast<int>(gradsync::parameters_of(model).size());
}
