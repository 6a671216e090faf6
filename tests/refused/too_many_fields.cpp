// expect: gradsync: only aggregates of up to 32 fields
// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

#include <vector>

#include "gradsync/model/for_each_parameter.hpp"

struct param {
  std::vector<float> value, grad;
};
struct net {
  param p01, p02, p03, p04, p05, p06, p07, p08, p09, p10, p11, p12, p13, p14, p15, p16, p17, p18, p19, p20, p21, p22, p23, p24, p25,
      p26, p27, p28, p29, p30, p31, p32, p33;
};

int main() {
  net model{};
  return static_cast<int>(gradsync::parameters_of(model).size());
}
