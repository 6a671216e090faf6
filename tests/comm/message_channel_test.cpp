// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0
#include "gradsync/comm/message_channel.hpp"

#include <doctest/doctest.h>

#include "tests/comm/message_queues.hpp"
#include "tests/laws/transport_laws.hpp"

using namespace gradsync;

namespace {

const auto over_queues = [](int size, auto body) { laws::run_queues(size, body); };

}  // namespace

static_assert(20'000 * sizeof(float) > 2 * laws::queue_endpoint::piece_bytes);  // what mean_laws takes for several pieces

TEST_CASE("channels of messages obey the laws of channels") { laws::channel_laws(over_queues); }

TEST_CASE("every strategy gives the mean over messages") { laws::mean_laws(over_queues, {1, 2, 3, 4, 5, 7, 8, 13}); }

TEST_CASE("an update's buckets have one roll call and one sum of weights") {
  std::uint64_t messages[2] = {};  // of updates with one bucket and with four
  for (const std::size_t buckets : {1u, 4u})
    messages[buckets / 4] = laws::run_queues(3, [buckets](auto& comm) {
      auto channel = comm.open(buckets);
      const program p = compile(ring{}, comm.rank(), comm.size());
      std::vector<float> own(90, static_cast<float>(comm.rank() + 1));
      const extent all = extent_over(std::span(own));
      for (int update = 1; update <= 2; ++update) {
        std::vector<ticket> posted;
        const auto weight = [&](int rank) { return static_cast<double>((rank + 1) * update); };
        laws::lending(comm, channel, [&] {
          for (std::size_t b = 0; b < buckets; ++b) {  // nobody asks for the weight of the others
            const buffer_view buffer{dtype::float32, std::span(&all, 1)};
            cursor at{.place = channel.post(p, {.buffer = buffer, .weight = b == 0 ? weight(comm.rank()) : -1, .part = b})};
            run(p, channel, at, comm.limit());
            posted.push_back(at.place);
          }
        });
        for (const ticket& t : posted) CHECK(channel.total_weight(t) == weight(0) + weight(1) + weight(2));
      }
    });
  const std::uint64_t rounds = 4, ranks = 3;  // of ring, with a message a rank
  CHECK(messages[1] - messages[0] == 2 * 3 * rounds * ranks);
}
