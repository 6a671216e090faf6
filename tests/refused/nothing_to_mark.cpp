// expect: gradsync: this holds no parameter, so there is nothing to mark
// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

#include "gradsync/model/for_each_parameter.hpp"

int main() {
  const int steps = 3;
  gradsync::for_each_mark(steps, [](const void*) {});
}
