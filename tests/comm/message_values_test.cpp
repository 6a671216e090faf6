// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0
#include "gradsync/comm/message_values.hpp"

#include <doctest/doctest.h>

#include "tests/comm/message_queues.hpp"

using namespace gradsync;

// The laws that these calls obey are those of message_communicator_test; here, where the two ways of going part.
TEST_CASE("values that fit into the roll call and longer ones come to the same bits") {
  for (const int size : {2, 3, 5, 8})
    laws::run_queues(size, [](auto& comm) {
      const auto rank = static_cast<std::size_t>(comm.rank());
      for (const std::size_t n : {8u, 9u}) {  // 32 bytes, and 36
        std::vector<float> sum = laws::numbers<float>(n, comm.rank(), n);
        comm.all_reduce(std::span<float>(sum));
        for (std::size_t i = 0; i < n; ++i) {
          const auto leaf = [&](int r) { return laws::numbers<float>(n, r, n)[i]; };
          CHECK(sum[i] == laws::tree_of<float>(leaf, laws::plus<float>, 0, comm.size()));
        }
        std::vector<float> mine(n, static_cast<float>(rank));
        comm.broadcast(std::span<float>(mine), comm.size() - 1);
        CHECK(mine == std::vector<float>(n, static_cast<float>(comm.size() - 1)));
      }
    });
}

TEST_CASE("the sum of truth values is true, as over threads") {
  laws::run_queues(3, [](auto& comm) {
    CHECK(comm.all_reduce(comm.rank() == 2));
    CHECK_FALSE(comm.all_reduce(false));
  });
}

TEST_CASE("types of 16 bits, which MPI cannot add, are added like any other") {
  laws::run_queues(3, [](auto& comm) {
    for (const std::size_t n : {3u, 100u}) {
      std::vector<std::int16_t> sum(n, static_cast<std::int16_t>(-300 * (comm.rank() + 1)));
      comm.all_reduce(std::span(sum));
      CHECK(sum == std::vector<std::int16_t>(n, -1800));
      std::vector<std::uint16_t> most(n, static_cast<std::uint16_t>(40'000 + comm.rank()));
      comm.all_reduce(std::span(most), reduce_op::max);
      CHECK(most == std::vector<std::uint16_t>(n, 40'002));
    }
  });
}
