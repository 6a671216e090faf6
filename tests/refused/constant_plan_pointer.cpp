// expect: gradsync: a constant plan needs a model whose type tells all its parameters
// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

#include <array>
#include <memory>

#include "gradsync/bucket/constant_plan.hpp"

struct net {
  std::unique_ptr<std::array<float, 4>> weight;
};

int main() {
  constexpr auto plan = gradsync::constant_plan<net>();
  return static_cast<int>(plan.size);
}
