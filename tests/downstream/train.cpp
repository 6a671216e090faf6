// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

// A user's program in a workspace of its own: own model types, own warnings, nothing of this repository but the public headers. Fits a line
// on two ranks, and ends with 1 unless the ranks agree to the bit and the line is found.

#include <cmath>
#include <iostream>
#include <vector>

#include "gradsync/gradsync.hpp"

namespace {

struct parameter {
  std::vector<double> value, grad;
};

class line {
 public:
  double at(double x) const { return slope_.value[0] * x + offset_.value[0]; }

  // Adds the gradient of the squared error of one example.
  void learn(double x, double y, double share) {
    const double error = 2 * (at(x) - y) * share;
    slope_.grad[0] += error * x;
    offset_.grad[0] += error;
  }
  void forget() { slope_.grad[0] = offset_.grad[0] = 0; }

 private:
  parameter slope_{{0.0}, {0.0}}, offset_{{0.0}, {0.0}};

 public:
  static constexpr auto parameters = gradsync::members<&line::slope_, &line::offset_>;
};

// The line 3 x - 1, on the examples of one rank.
bool find_line(gradsync::thread_communicator& comm) {
  line model;
  gradsync::synchronizer sync{model, comm};
  gradsync::sgd optimizer{model, {.learning_rate = 0.1}};
  std::vector<double> mine;
  for (int i = comm.rank(); i < 9; i += comm.size()) mine.push_back(i / 4.0 - 1);  // 5 examples, and 4
  for (int step = 0; step < 300; ++step) {
    sync.begin({.weight = mine.size()});
    model.forget();
    for (const double x : mine) model.learn(x, 3 * x - 1, 1 / static_cast<double>(mine.size()));
    sync.mark_ready(model);
    sync.finish();
    optimizer.step();
  }
  const auto bits = gradsync::fingerprint(model);
  return bits == comm.broadcast(bits) && std::abs(model.at(2) - 5) < 1e-6;
}

}  // namespace

int main() {
  bool found = true;
  gradsync::thread_group{2}.run([&found](gradsync::thread_communicator& comm) {
    const bool mine = find_line(comm);
    const bool all = comm.all_reduce(mine ? 1 : 0, gradsync::reduce_op::min) == 1;
    if (comm.rank() == 0) found = all;
  });
  std::cout << (found ? "both ranks found the line\n" : "the ranks differ, or the line is wrong\n");
  return found ? 0 : 1;
}
