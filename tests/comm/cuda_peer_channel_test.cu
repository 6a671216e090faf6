// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0
#include "gradsync/comm/cuda_peer_channel.hpp"

#include <doctest/doctest.h>

#include "tests/comm/cuda_peer_ranks.hpp"
#include "tests/laws/transport_laws.hpp"

using namespace gradsync;
using tests::staged_communicator;
using tests::staged_run;

TEST_CASE("ranks on one device, and on several, come to the mean of every strategy") {
  unsigned seed = 1;
  laws::mean_laws(staged_run{{0}, &seed}, {1, 2, 3, 5});
  laws::mean_laws(staged_run{{0, 1, 2}, &seed}, {3, 4});
}

TEST_CASE("every strategy comes to the mean in any order that CUDA allows") {
  for (unsigned seed = 1; seed <= 60; ++seed) {
    standin::seed(seed);
    const int size = 2 + static_cast<int>(seed) % 4;
    cuda_peer_group(size, seed % 2 == 0 ? std::vector<int>{0} : std::vector<int>{2, 0}).run([&](cuda_peer_communicator& comm) {
      staged_communicator staged(comm);
      auto channel = staged.open(2);
      laws::each_program(comm.rank(), comm.size(), [&](const program& p, bool canonical) {
        for (const std::uint64_t count : {70u, 500u})
          laws::mean_law<float>(staged, channel, p, canonical, {.count = count, .seed = seed + count, .weighted = true});
      });
    });
  }
}

TEST_CASE("channels between CUDA peers obey the laws of channels") {
  unsigned seed = 100;
  laws::channel_laws(staged_run{{0}, &seed});
  laws::channel_laws(staged_run{{2, 0}, &seed});
}
