// expect: gradsync: this holds no parameter, so there is nothing to mark
// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

#include <vector>

#include "gradsync/model/for_each_parameter.hpp"

int main() {
  gradsync::state<std::vector<float>> mean;
  gradsync::for_each_mark(mean, [](const void*) {});
}
