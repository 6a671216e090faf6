// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

#include "gradsync/comm/process_communicator.hpp"

#include <doctest/doctest.h>

#include "tests/laws/over_forks.hpp"

using namespace gradsync;
using laws::over_forks;

REGISTER_LISTENER("failures", 1, laws::failure_counter);

TEST_CASE("processes obey the laws of a communicator") { laws::communicator_laws(over_forks, 5); }

TEST_CASE("parts of a group work apart, and fail together") {
  over_forks(6, [](auto& comm) {
    auto row = comm.split(comm.rank() / 3), column = comm.split(comm.rank() % 3, -comm.rank());
    CHECK((row.size() == 3 && row.rank() == comm.rank() % 3 && column.size() == 2 && column.rank() == 1 - comm.rank() / 3));
    CHECK(row.all_reduce(comm.rank()) == (comm.rank() < 3 ? 3 : 12));
    CHECK(column.all_reduce(comm.rank()) == 2 * (comm.rank() % 3) + 3);
    auto pair = row.split(row.rank() == 2 ? 1 : 0);
    CHECK(pair.size() == (row.rank() == 2 ? 1 : 2));
    auto channel = column.open(1);
    laws::mean_law<float>(column, channel, compile(native{}, column.rank(), 2), true, {.count = 3001, .seed = 1, .weighted = true});
  });
  CHECK_THROWS_WITH_AS(over_forks(4,
                                  [](auto& comm) {
                                    auto half = comm.split(comm.rank() / 2);
                                    if (comm.rank() == 3) throw usage_error("no more data");
                                    half.barrier();
                                    half.barrier();
                                    comm.barrier();
                                  }),
                       doctest::Contains("failed: gradsync: no more data"), transport_error);
}

TEST_CASE("values of more than one piece arrive as they were") {
  over_forks(2, [](auto& comm) {
    std::vector<std::uint8_t> bytes((3 << 20) + 5);
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::uint8_t>(comm.rank() == 1 ? i % 251 : 0);
    comm.broadcast(std::span(bytes), 1);
    bool same = true;
    for (std::size_t i = 0; i < bytes.size(); ++i) same = same && bytes[i] == i % 251;
    CHECK(same);
    std::vector<double> many(300'000, comm.rank() + 1.0);
    comm.all_reduce(std::span(many));
    CHECK((many.front() == 3 && many.back() == 3));
  });
}

TEST_CASE("channels are counted, and too many are one clear error") {
  CHECK_THROWS_WITH_AS(over_forks(1,
                                  [](auto& comm) {
                                    for (;;) comm.open(1);
                                  }),
                       "gradsync[rank 0]: the processes have opened all 4096 channels that a run has", usage_error);
}
