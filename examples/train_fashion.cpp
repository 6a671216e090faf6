// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// Trains a multi-layer perceptron on Fashion-MNIST with several replicas.
///
///     bazel run -c opt //examples:train_fashion -- --ranks 4      # threads
///     mpirun -np 4 bazel-bin/examples/train_fashion               # processes, where it was built with MPI: the same bits
///
/// What is worth reading lies in examples/fashion: the model (mlp.hpp) knows nothing of gradsync, and the training (train.cpp) keeps its
/// replicas in step.
#include <exception>
#include <iostream>
#include <stdexcept>

#include "examples/fashion/interrupt.hpp"
#include "examples/fashion/options.hpp"
#include "examples/fashion/processes.hpp"
#include "examples/fashion/report.hpp"
#include "examples/fashion/train.hpp"

int main(int argc, char** argv) {
  const fashion::command_line asked = fashion::parse_command_line(argc, argv);
  if (!asked.text.empty()) {
    std::ostream& to = asked.exit_code == 0 ? std::cout : std::cerr;
    to << asked.text << std::endl;
    return to ? asked.exit_code : 1;
  }
  try {
    const fashion::interrupt_watch watch;
    fashion::report show{std::cout, fashion::standard_output_kind()};
    const auto over_processes = fashion::train_over_processes(asked.chosen, show);
    const fashion::training_result result = over_processes ? *over_processes : fashion::train(asked.chosen, show);
    if (!std::cout.flush()) throw std::runtime_error("what it says could not be written");
    if (result.signal != 0) return 128 + result.signal;  // as a shell reports it
    return result.replicas_agree ? 0 : 1;
  } catch (const std::exception& problem) {
    std::cerr << "train_fashion: " << problem.what() << '\n';
    return 1;
  }
}
