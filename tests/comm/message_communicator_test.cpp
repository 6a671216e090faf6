// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0
#include "gradsync/comm/message_communicator.hpp"

#include <doctest/doctest.h>

#include "tests/comm/message_queues.hpp"
#include "tests/laws/transport_laws.hpp"

using namespace gradsync;

namespace {

const auto over_queues = [](int size, auto body) { laws::run_queues(size, body); };

// The first `size` ranks of a larger group, as a part of it: the numbers are the same.
const auto over_part = [](int size, auto body) {
  laws::run_queues(size + 1, [&](auto& comm) {
    auto part = comm.split(comm.rank() < size ? -7 : 3);
    if (comm.rank() < size) body(part);
  });
};

}  // namespace

TEST_CASE("ranks that pass messages obey the laws of a communicator") { laws::communicator_laws(over_queues); }

TEST_CASE("a part of them does too") { laws::communicator_laws(over_part, 5); }

TEST_CASE("ranks that pass messages obey the laws of failure") { laws::failure_laws(over_queues); }

TEST_CASE("ranks of one color are a group, ordered by key, and parts of parts do not meet each other's messages") {
  laws::run_queues(6, [](auto& comm) {
    auto row = comm.split(comm.rank() / 3, -comm.rank());
    CHECK(row.size() == 3);
    CHECK(row.rank() == 2 - comm.rank() % 3);
    auto column = comm.split(comm.rank() % 3);
    CHECK(column.size() == 2);
    CHECK(column.rank() == comm.rank() / 3);
    CHECK(row.all_reduce(comm.rank()) == (comm.rank() < 3 ? 3 : 12));
    CHECK(column.all_reduce(comm.rank()) == 2 * (comm.rank() % 3) + 3);
    auto alone = row.split(row.rank());
    CHECK(alone.all_reduce(comm.rank()) == comm.rank());
    auto whole = comm.split(0, comm.rank());
    CHECK(whole.all_reduce(1) == 6);
  });
}
