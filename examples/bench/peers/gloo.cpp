// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

// Gloo between threads, over its own loopback transport: arguments are the folder, the number of ranks, and ring or bcube.
#include <gloo/allreduce.h>
#include <gloo/barrier.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/hash_store.h>
#include <gloo/transport/tcp/device.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "examples/bench/peers/serve.hpp"

int main(int, char** argv) {
  const int size = std::stoi(argv[2]);
  const bool ring = std::string(argv[3]) == "ring";
  gloo::rendezvous::HashStore store;
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < size; ++rank)
    ranks.emplace_back([&, rank] {
      gloo::transport::tcp::attr where;
      where.iface = "lo";
      auto device = gloo::transport::tcp::CreateDevice(where);
      auto context = std::make_shared<gloo::rendezvous::Context>(rank, size);
      context->connectFullMesh(store, device);
      bench::serve(
          argv[1], rank, size,
          [&](float* at, std::size_t n) {
            gloo::AllreduceOptions chosen(context);
            chosen.setOutput(at, n);
            chosen.setReduceFunction([](void* to, const void* a, const void* b, std::size_t m) { gloo::sum<float>(to, a, b, m); });
            chosen.setAlgorithm(ring ? gloo::AllreduceOptions::Algorithm::RING : gloo::AllreduceOptions::Algorithm::BCUBE);
            gloo::allreduce(chosen);
          },
          [&] {
            gloo::BarrierOptions all(context);
            gloo::barrier(all);
          });
    });
  for (std::thread& rank : ranks) rank.join();
}
