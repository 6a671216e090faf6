// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

// One replica of my model takes several ranks. Who averages with whom, and which ranks are near each other?
//
//     bazel run //examples:12_sub_groups
//
// Every communicator can split. Here four ranks are a grid: a row holds one model, cut in two (tensor parallelism), and adds up what its
// two halves give; the ranks of a column hold the same half, see different data, and average its gradients (data parallelism).

#include <array>
#include <cstdint>
#include <cstdio>
#include <span>
#include <vector>

#include "gradsync/gradsync.hpp"

struct param {
  std::vector<float> value, grad;
};
struct half_model {
  param weight{.value = {0, 0}, .grad = {0, 0}};  // two of the four weights of y = w · x
};

constexpr int columns = 2, batch = 8;
constexpr float truth[columns][2] = {{1, 2}, {3, 4}};

// A column's half of example i of a row; no two rows have the same examples.
std::array<float, 2> input(int row, int column, int i) {
  const auto number = [&](int k) { return static_cast<float>((3 * row + 5 * i + i * i * (k + 2)) % 7 - 3) / 4; };
  return {number(2 * column), number(2 * column + 1)};
}

int main() {
  gradsync::thread_group{4}.run([](auto& comm) {
    const int my_row = comm.rank() / columns, my_column = comm.rank() % columns;
    auto row = comm.split(my_row);        // ranks 0 1, and 2 3
    auto column = comm.split(my_column);  // ranks 0 2, and 1 3

    half_model net;
    gradsync::synchronizer sync{net, column};
    for (int update = 0; update < 200; ++update) {
      std::vector<float> errors;  // first what this half predicts, less the truth, then what both do
      for (int i = 0; i < batch; ++i) {
        const auto x = input(my_row, my_column, i);
        errors.push_back((net.weight.value[0] - truth[my_column][0]) * x[0] + (net.weight.value[1] - truth[my_column][1]) * x[1]);
      }
      row.all_reduce(std::span<float>(errors));

      sync.begin({.weight = batch});
      net.weight.grad = {0, 0};
      for (int i = 0; i < batch; ++i)
        for (std::size_t k = 0; k < 2; ++k)
          net.weight.grad[k] += errors[static_cast<std::size_t>(i)] * input(my_row, my_column, i)[k] / batch;
      sync.mark_ready(net.weight);
      sync.finish();
      for (std::size_t k = 0; k < 2; ++k) net.weight.value[k] -= net.weight.grad[k];
    }
    for (int turn = 0; turn < comm.size(); ++turn, comm.barrier())
      if (turn == comm.rank())
        std::printf("rank %d, row %d, column %d: weights %.3f and %.3f\n", turn, my_row, my_column, net.weight.value[0],
                    net.weight.value[1]);

    // Groups by host: processes say gradsync::host_id(); these threads play two hosts. Strategies of two levels follow by themselves.
    const auto my_host = static_cast<std::uint64_t>(my_row);
    auto groups = gradsync::split_by_host(comm, my_host);
    const gradsync::collective sum{comm, gradsync::over_hosts<>{.host = my_host}};
    if (comm.rank() == 0) std::printf("\n%s\n%s", describe(groups.map).c_str(), describe(sum).c_str());
  });
}

// Next: 13_launching starts the same ranks as processes.
