// expect: gradsync: this class only inherits visit_parameters from its base
// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

#include <vector>

#include "gradsync/model/for_each_parameter.hpp"

struct param {
  std::vector<float> value, grad;
};
class layer {
 public:
  template <class Visit>
  void visit_parameters(Visit& visit) {
    visit("weight", weight_);
  }

 private:
  param weight_;
};
struct net : layer {
  param bias;
};

int main() {
  net model{};
  return static_cast<int>(gradsync::parameters_of(model).size());
}
