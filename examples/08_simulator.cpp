// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

// What will my all-reduce cost on 1,024 GPUs that I don't have?
//
//     bazel run -c opt //examples:08_simulator
//
// A topology says what lies between the ranks, tier by tier; simulate() walks every rank through its rounds in virtual time. It needs no
// GPU, no network and no threads, and gives the same answer every time. Put your own figures in: those of links are in data sheets,
// calibrate(comm) measures those of a transport that you have.

#include <algorithm>
#include <cstdio>
#include <vector>

#include "gradsync/gradsync.hpp"

using gradsync::halving_doubling, gradsync::hierarchical, gradsync::ring, gradsync::topology;

// Nodes of 8 GPUs on a switch of 450 GB/s each; every GPU has a network card of 50 GB/s.
constexpr topology cluster{.tiers = {{.units = 8, .wire = {.alpha = 2e-6, .beta = 1 / 450e9, .gamma = 1 / 1.5e12}},
                                     {.wire = {.alpha = 6e-6, .beta = 1 / 50e9, .gamma = 1 / 1.5e12}}}};
constexpr int gpus = 1024;
constexpr std::size_t bucket = 25 << 20;

template <class Body>
void for_each_strategy(Body body) {
  body(halving_doubling{});
  body(gradsync::double_tree{.segments = 64});
  body(hierarchical{ring{}, ring{}, 8});
  body(hierarchical{ring{}, halving_doubling{}, 8});
}

template <class Strategy>
double milliseconds(const Strategy& s, const topology& where, int size, std::size_t bytes) {
  return 1e3 * gradsync::simulate(s, where, size, bytes).seconds;
}

int main() {
  std::printf("milliseconds on %d GPUs:\n%-38s  64 KiB  25 MiB     1 GiB  GB between nodes\n", gpus, "strategy");
  const auto by_size = [](const auto& s) {
    const gradsync::simulation large = gradsync::simulate(s, cluster, gpus, 1 << 30);
    std::printf("%-38s %7.3f %7.3f %9.3f %17.1f\n", s.name(), milliseconds(s, cluster, gpus, 64 << 10),
                milliseconds(s, cluster, gpus, bucket), 1e3 * large.seconds, static_cast<double>(large.tiers[1].bytes) / 1e9);
  };
  by_size(ring{});  // a message in each of 2046 rounds: too many for a bucket
  for_each_strategy(by_size);

  // Fewer cards: messages that leave a node, or enter it, queue there.
  std::printf("\n25 MiB, if the 8 GPUs of a node share cards:\n%-38s 4 cards  1 card\n", "strategy");
  for_each_strategy([](const auto& s) {
    std::printf("%-38s", s.name());
    for (const int cards : {4, 1}) {
      topology shared = cluster;
      shared.tiers[0].nics = cards;
      std::printf(" %7.3f", milliseconds(s, shared, gpus, bucket));
    }
    std::printf("\n");
  });

  // One GPU comes 5 ms after the others. All pay for it: nobody has the mean without its part.
  std::vector<double> late(gpus);
  late[517] = 5e-3;
  std::printf("\n25 MiB, if rank 517 is 5 ms late:\n%-38s   first    last rank is through\n", "strategy");
  for_each_strategy([&](const auto& s) {
    const gradsync::simulation delayed = gradsync::simulate(s, cluster, late, bucket);
    std::printf("%-38s %7.3f %7.3f\n", s.name(), 1e3 * *std::min_element(delayed.ranks.begin(), delayed.ranks.end()),
                1e3 * delayed.seconds);
  });

  std::printf("\n25 MiB on more nodes, hierarchical(ring, halving_doubling):\n");
  for (const int size : {8, 64, 512, 4096, 16384})
    std::printf("%5d GPUs %7.3f\n", size, milliseconds(hierarchical{ring{}, halving_doubling{}, 8}, cluster, size, bucket));
}

// Next: 09_when_ranks_disagree shows what happens when something goes wrong.
