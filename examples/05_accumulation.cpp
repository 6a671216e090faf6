// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

// How do several micro-steps make one update, and why does the number of ranks not change the result?
//
//     bazel run //examples:05_accumulation
//
// Each micro-step hands in a gradient and a weight. The result is (Σ sums) / (Σ weights) over all micro-steps of all ranks. The library
// adds them up in one fixed binary tree, whoever holds the leaves: 8 micro-steps on one rank, 4 on each of two, ... give the same bits.

#include <iostream>
#include <vector>

#include "gradsync/gradsync.hpp"

using gradsync::accumulation_mode, gradsync::gradient_kind, gradsync::micro_step;

struct param {
  std::vector<float> value = std::vector<float>(1000), grad = std::vector<float>(1000);
};
struct model {
  param weight;
};

// Stands for backward: adds the gradient of micro-batch m, which has m + 1 examples, as a sum over them.
void backward(int m, std::vector<float>& grad) {
  for (std::size_t i = 0; i < grad.size(); ++i) grad[i] += 1.0f / static_cast<float>(1 + (i * 37 + static_cast<std::size_t>(m) * 101) % 97);
}

// One update of 8 micro-batches in contiguous shares, then a step of SGD.
void update(int ranks, accumulation_mode accumulation) {
  gradsync::thread_group{ranks}.run([&](auto& comm) {
    model net;
    gradsync::synchronizer sync{net, comm, {.accumulation = accumulation}};
    const int share = 8 / comm.size();
    for (int m = comm.rank() * share, end = m + share; m < end; ++m) {
      sync.begin({.weight = m + 1, .gradient = gradient_kind::sum, .micro_step = m + 1 < end ? micro_step::more : micro_step::last});
      if (accumulation == accumulation_mode::tree) net.weight.grad.assign(1000, 0);  // each micro-step overwrites
      backward(m, net.weight.grad);
      sync.mark_ready(net.weight);
      sync.finish();  // sends at the last micro-step only
    }
    gradsync::sgd{net, {.learning_rate = 1}}.step();
    if (comm.rank() == 0)
      std::cout << ranks << (ranks == 1 ? " rank:  " : " ranks: ") << gradsync::to_hex(gradsync::fingerprint(net)) << ", partial sums "
                << sync.memory().partial_sums << " bytes\n";
  });
}

int main() {
  std::cout << "tree: the library adds; the weights end as\n";
  for (const int ranks : {1, 2, 4, 8}) update(ranks, accumulation_mode::tree);
  std::cout << "plain: your backward adds, with no memory of ours; bits depend on the number of ranks\n";
  for (const int ranks : {1, 8}) update(ranks, accumulation_mode::plain);

  // Token counts as weights, sums as gradients: (8 + 2 + 3 + 12) / (8 + 1 + 3 + 4). Then rank 1 runs out of data after one micro-step, and
  // ends the update: (8 + 2 + 3) / (8 + 1 + 3).
  gradsync::thread_group{2}.run([](auto& comm) {
    const float sums[2][2] = {{8, 2}, {3, 12}};
    const int tokens[2][2] = {{8, 1}, {3, 4}};
    model net;
    gradsync::synchronizer sync{net, comm};
    const auto hand_in = [&](int m, micro_step which) {
      sync.begin({.weight = tokens[comm.rank()][m], .gradient = gradient_kind::sum, .micro_step = which});
      net.weight.grad.assign(1000, sums[comm.rank()][m]);
      sync.mark_ready(net.weight);
      return sync.finish();
    };
    for (const bool out_of_data : {false, true}) {
      hand_in(0, micro_step::more);
      const auto result = out_of_data && comm.rank() == 1 ? sync.contribute_nothing() : hand_in(1, micro_step::last);
      if (comm.rank() == 0) std::cout << "mean over " << result.weight << " tokens: " << net.weight.grad[0] << '\n';
    }
  });
}

// Next: train_fashion puts all of this to work on real data.
