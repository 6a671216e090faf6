// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0
#include "gradsync/comm/nccl_communicator.hpp"

#include <doctest/doctest.h>

#include "tests/comm/nccl_ranks.hpp"
#include "tests/laws/transport_laws.hpp"

using namespace gradsync;
using namespace std::chrono_literals;
using tests::on_gpus;

TEST_CASE("a user's own values obey the laws of a communicator over NCCL") {
  int number = 0;
  const auto run = [&](int size, auto body) { on_gpus(size, body, {}, static_cast<unsigned>(++number)); };
  laws::communicator_laws(run, 5);
}
