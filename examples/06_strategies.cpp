// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

// Which all-reduce strategy should I use, and what do they do?
//
//     bazel run //examples:06_strategies
//
// A strategy says who sends which part of the gradients to whom, round by round. All give the mean; they differ in the number of rounds
// (which small gradients feel), in the bytes that a rank sends (which large ones feel), and in the order of additions (which the last bits
// feel). Each is proved for the number of ranks before it runs. Between threads keep native, the default: there it is one pass over memory,
// without messages. Where messages have to be sent, halving_doubling has few rounds, few bytes and canonical bits; ring talks to neighbours
// only, for networks on which distance counts; tree sends each rank's gradients whole, so it suits short ones.

#include <cstdio>
#include <iostream>
#include <vector>

#include "gradsync/gradsync.hpp"

struct param {
  std::vector<float> value = std::vector<float>(1000), grad = std::vector<float>(1000);
};
struct model {
  param weight;
};

template <class Body>
void for_each_strategy(Body body) {
  body(gradsync::native{});
  body(gradsync::ring{});
  body(gradsync::halving_doubling{});
  body(gradsync::tree{});
  body(gradsync::double_tree{});
}

// The mean of five gradients whose sum depends on the order of additions.
template <class Strategy>
void train(const Strategy& strategy) {
  gradsync::thread_group{5}.run([&](auto& comm) {
    model net;
    gradsync::collective sum{comm, strategy};  // proved here, or usage_error says what is wrong with it
    gradsync::synchronizer sync{net, sum};
    for (int i = 0; i < 1000; ++i)
      net.weight.grad[static_cast<std::size_t>(i)] = 1.0f / static_cast<float>(1 + (i + comm.rank()) * 37 % 97);
    sync.mark_ready(net.weight);
    sync.finish();
    net.weight.value = net.weight.grad;
    if (comm.rank() != 0) return;
    std::printf("%-16s  %-9s  %s\n", strategy.name(), name_of(sum.reproducibility()), gradsync::to_hex(gradsync::fingerprint(net)).c_str());
  });
}

int main() {
  // What it does. Chunks are parts of the buffer; a rank divides by the sum of the weights as soon as it holds a whole chunk.
  std::cout << print(gradsync::ring{}, 3) << '\n' << print(gradsync::halving_doubling{}, 4) << '\n';

  // What it costs in messages, by the α-β-γ model: 5 µs each, 12.5 GB/s moved, 50 GB/s added.
  constexpr gradsync::link wire{.alpha = 5e-6, .beta = 8e-11, .gamma = 2e-11};
  std::printf("milliseconds on 64 ranks:\n%-16s  rounds     4 KiB     1 MiB   100 MiB\n", "strategy");
  for_each_strategy([&](const auto& s) {
    std::printf("%-16s  %6d", s.name(), s.rounds(64));
    for (const double bytes : {4096.0, 1048576.0, 104857600.0}) std::printf("%10.3f", 1e3 * gradsync::cost(s, wire, 64, bytes));
    std::printf("\n");
  });

  // What it proves, at compile time if you like, and what that means for the bits: canonical ones are all alike.
  static_assert(gradsync::verify(gradsync::halving_doubling{}, 5).reproducibility == gradsync::level::canonical);
  std::printf("\nthe mean over 5 ranks:\n%-16s  proved     bits\n", "strategy");
  for_each_strategy([](const auto& s) { train(s); });
}

// Next: 07_your_strategy writes a new one.
