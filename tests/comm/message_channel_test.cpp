// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0
#include "gradsync/comm/message_channel.hpp"

#include <doctest/doctest.h>

#include "tests/comm/message_queues.hpp"
#include "tests/laws/transport_laws.hpp"

using namespace gradsync;

namespace {

const auto over_queues = [](int size, auto body) { test::run_queues(size, body); };

}  // namespace

static_assert(20'000 * sizeof(float) > 2 * test::queue_endpoint::piece_bytes);  // what mean_laws takes for several pieces

TEST_CASE("channels of messages obey the laws of channels") { laws::channel_laws(over_queues); }

TEST_CASE("every strategy gives the mean over messages") { laws::mean_laws(over_queues, {1, 2, 3, 4, 5, 7, 8, 13}); }
