// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

#include "gradsync/comm/process_peers.hpp"

#include <doctest/doctest.h>

#include "tests/laws/over_forks.hpp"

using namespace gradsync;
using laws::over_forks;

REGISTER_LISTENER("failures", 1, laws::failure_counter);

TEST_CASE("processes obey the laws of a channel") { laws::channel_laws(over_forks); }

TEST_CASE("processes give the mean, by every strategy") { laws::mean_laws(over_forks, {2, 3, 5}); }

TEST_CASE("memory that peers cannot reach is refused") {
  CHECK_THROWS_WITH_AS(
      over_forks(2,
                 [](auto& comm) {
                   auto channel = comm.open(1);
                   float own[4] = {};
                   const extent all{reinterpret_cast<std::byte*>(own), 0, 4};
                   const program p = compile(native{}, comm.rank(), comm.size());
                   laws::lending(comm, channel, [&] { channel.post(p, {.buffer = {dtype::float32, std::span(&all, 1)}}); });
                 }),
      doctest::Contains("lies outside the memory that the processes share"), error);
}
