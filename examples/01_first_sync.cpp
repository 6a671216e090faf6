// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

// How do I keep the replicas of my model in step?
//
//     bazel run //examples:01_first_sync
//
// Two ranks, here two threads, each with its own copy of the model and its own data: rank 0 has four examples, rank 1 has one. The gradient
// of all five is (1 + 1 + 1 + 1 + 5) / 5 = 1.8; the mean of the two batch means would be 3. What each line does stands in
// include/gradsync/synchronizer.hpp.

#include <iostream>
#include <vector>

#include "gradsync/gradsync.hpp"

struct param { std::vector<float> value, grad; };  // your own types: no base class, no macro
struct model { param weight, bias; };              // predicts weight * x + bias
struct example { float x, y; };

int main() {
  gradsync::thread_group ranks{2};
  ranks.run([](auto& comm) {
    using batch = std::vector<example>;
    const batch mine = comm.rank() == 0 ? batch{{1, 5}, {2, 5}, {3, 5}, {4, 5}} : batch{{2, 1}};
    model net{.weight = {{0}, {}}, .bias = {{6}, {}}};
    gradsync::synchronizer sync{net, comm};  // every rank now has rank 0's values

    sync.begin({.weight = mine.size()});
    net.weight.grad = net.bias.grad = {0};
    for (const auto& [x, y] : mine) {  // your backward pass: the mean over your own examples
      const float error = net.weight.value[0] * x + net.bias.value[0] - y;
      net.weight.grad[0] += error * x / static_cast<float>(mine.size());
      net.bias.grad[0] += error / static_cast<float>(mine.size());
    }
    const float own = net.bias.grad[0];
    sync.mark_ready(net.bias);  // it may travel while you compute the next one
    sync.mark_ready(net.weight);
    sync.finish();  // every gradient is the mean over the examples of all ranks

    for (int turn = 0; turn < comm.size(); ++turn, comm.barrier())
      if (turn == comm.rank())
        std::cout << "rank " << turn << ": own bias gradient " << own << ", weight " << mine.size() << "; after finish() "
                  << net.bias.grad[0] << (net.bias.grad[0] == 9.0f / 5 ? ", exactly 9.0f / 5\n" : ", wrong\n");
  });
}

// Next: 02_your_model shows what else your model may be made of.
