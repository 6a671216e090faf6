// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

// How do I train a torch::nn::Module on several ranks?
//
//     sudo apt-get install libtorch-dev && bazel run //examples:torch_data_parallel
//
// A torch_synchronizer in front of the training loop, finish() behind backward(). Nothing else of the loop changes. Here the same loop runs
// on one rank, on two and on four, always with the same eight micro-batches of different sizes for an update, and ends with the same bits:
// gradsync adds the gradients of micro-batches in one fixed tree, whichever rank they are on. LayerNorm keeps no running statistics; those
// of a BatchNorm would be each rank's own.

#include <torch/torch.h>

#include <cstdint>
#include <iostream>
#include <memory>
#include <mutex>
#include <string>

#include "gradsync/adapt/torch.hpp"
#include "gradsync/gradsync.hpp"

using gradsync::micro_step;

struct perceptron : torch::nn::Module {
  torch::nn::Sequential layers =
      register_module("layers", torch::nn::Sequential(torch::nn::Linear(8, 32), torch::nn::LayerNorm(torch::nn::LayerNormOptions({32})),
                                                      torch::nn::Tanh(), torch::nn::Linear(32, 1)));
};

struct batch {
  torch::Tensor x, y;
};

constexpr int examples_an_update = 20;  // in eight micro-batches of 1, 2, 3, 4, 1, 2, 3 and 4

// Micro-batch m of an update: points of the function that is learnt.
batch micro_batch(int update, int m) {
  auto generator = at::detail::createCPUGenerator(static_cast<std::uint64_t>(8 * update + m));
  const auto x = torch::rand({1 + m % 4, 8}, generator);
  return {x, torch::sin(x.sum(1, true))};
}

// All ranks draw from the one generator of LibTorch: in turns, so that every run starts alike.
std::shared_ptr<perceptron> initialised() {
  static std::mutex one_at_a_time;
  const std::lock_guard hold(one_at_a_time);
  torch::manual_seed(0);
  return std::make_shared<perceptron>();
}

// Trains for 100 updates. The fingerprint of the weights at the end.
std::string train(int ranks) {
  std::string weights;
  gradsync::thread_group(ranks).run([&](auto& comm) {
    const std::shared_ptr<perceptron> net = initialised();
    torch::optim::SGD optimizer(net->parameters(), torch::optim::SGDOptions(0.05).momentum(0.9));
    gradsync::torch_synchronizer sync{*net, comm, {.bucket_bytes = 512}};

    const int share = 8 / comm.size();  // one rank has eight micro-steps an update, eight ranks have one each
    double loss = 0;
    for (int update = 0; update < 100; ++update) {
      optimizer.zero_grad();
      loss = 0;
      for (int i = 0; i < share; ++i) {
        const batch now = micro_batch(update, comm.rank() * share + i);
        sync.begin({.weight = now.x.size(0), .micro_step = i + 1 < share ? micro_step::more : micro_step::last});
        const auto error = torch::mse_loss(net->layers->forward(now.x), now.y);
        error.backward();  // a bucket leaves as soon as its gradients are made
        sync.finish();     // the last one of an update waits for the mean over all examples of all ranks
        loss += error.template item<double>() * static_cast<double>(now.x.size(0)) / examples_an_update;
      }
      optimizer.step();
      loss = comm.all_reduce(loss);
      if (ranks == 1 && update == 0) std::cout << "loss at first " << loss << '\n';
    }
    if (comm.rank() == 0) {
      weights = gradsync::to_hex(gradsync::fingerprint(gradsync::torch_parameters{*net}));
      if (ranks == 2) std::cout << "buckets:\n" << sync.describe_plan();
      std::cout << ranks << (ranks == 1 ? " rank:  " : " ranks: ") << "loss " << loss << ", weights " << weights << '\n';
    }
  });
  return weights;
}

int main() {
  torch::set_num_threads(1);  // ranks are the parallelism
  const std::string alone = train(1);
  const bool same = train(2) == alone && train(4) == alone;
  std::cout << (same ? "one, two and four ranks end with the same bits\n" : "the bits differ\n");
}
