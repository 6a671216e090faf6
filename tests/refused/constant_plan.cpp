// expect: gradsync: a constant plan needs lengths that the types tell
// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

#include <array>
#include <vector>

#include "gradsync/bucket/constant_plan.hpp"

struct net {
  std::array<float, 4> bias;
  std::vector<float> weight;
};

int main() {
  constexpr auto plan = gradsync::constant_plan<net>();
  return static_cast<int>(plan.size);
}
