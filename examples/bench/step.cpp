// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

//     bazel run -c opt //examples/bench:step -- --help
#include <iostream>

#include "examples/bench/training.hpp"

int main(int argc, char** argv) { return bench::run_training(bench::training_program::step, argc, argv, std::cout, std::cerr); }
