// expect: gradsync: a value and its gradient lie in the same memory, host or device
// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

#include <span>
#include <vector>

#include "gradsync/model/for_each_parameter.hpp"

struct on_device {
  float* first = nullptr;
};
template <>
struct gradsync::parameter_access<on_device> {
  static constexpr auto space = gradsync::memory_space::cuda;
  static std::span<float> value(on_device& x) { return {x.first, 1}; }
};
struct param {
  on_device value;
  std::vector<float> grad;
};
struct net {
  param weight;
};

int main() {
  net model{};
  return static_cast<int>(gradsync::parameters_of(model).size());
}
