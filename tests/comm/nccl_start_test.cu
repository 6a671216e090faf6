// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0
#include "gradsync/comm/nccl_start.hpp"

#include <doctest/doctest.h>

#include <cstdint>

#include "gradsync/comm/threads.hpp"
#include "tests/cuda_standin/nccl_standin.hpp"
#include "tests/cuda_standin/standin.hpp"

using namespace gradsync;
using namespace std::chrono_literals;

namespace {

auto meeting_over(thread_communicator& host) {
  return broadcast_meeting(host.rank(), host.size(), [&host](std::span<std::byte> bytes, int root) {
    host.broadcast(std::span(reinterpret_cast<std::uint8_t*>(bytes.data()), bytes.size()), root);
  });
}

}  // namespace

TEST_CASE("a broadcast makes a meeting, at which each rank gives what it likes") {
  thread_group(3).run([](auto& host) {
    auto meet = meeting_over(host);
    CHECK(meet.all_gather(std::string(static_cast<std::size_t>(host.rank()), 'x')) == std::vector<std::string>{"", "x", "xx"});
    CHECK(meet.all_gather(std::string(248, 'y'))[2].size() == 248);
  });
  thread_group(1).run([](auto& host) {
    auto meet = meeting_over(host);
    CHECK_THROWS_WITH_AS(meet.all_gather(std::string(249, 'y')), doctest::Contains("at most 248 bytes"), usage_error);
  });
}

TEST_CASE("ranks agree on rank 0's unique id, unless two of them have one device") {
  standin::reset();
  standin::devices(4);
  standin::nccl::set({});
  thread_group(3).run([](auto& host) {
    auto meet = meeting_over(host);
    const ncclUniqueId id = detail::agree(meet, host.rank(), host.rank());
    for (const std::string& other : meet.all_gather(std::string(id.internal, sizeof id.internal)))
      CHECK(other == std::string(id.internal, sizeof id.internal));
    CHECK_THROWS_WITH_AS(detail::agree(meet, host.rank(), host.rank() == 0 ? 0 : 1), doctest::Contains("ranks 1 and 2 have the same GPU"),
                         usage_error);
  });
}

TEST_CASE("with NCCL_COMM_ID ranks need not meet") {
  setenv("NCCL_COMM_ID", "somewhere:29500", 1);
  const ncclUniqueId a = detail::agree(launch{.rank = 0, .size = 2}, {}), b = detail::agree(launch{.rank = 1, .size = 2}, {});
  unsetenv("NCCL_COMM_ID");
  CHECK(std::string(a.internal) == "somewhere:29500");
  CHECK(std::string(b.internal) == "somewhere:29500");
}

TEST_CASE("a communicator for which a rank doesn't come ends in a timeout") {
  standin::reset();
  standin::devices(4);
  standin::nccl::set({});
  CHECK_THROWS_WITH_AS(detail::connect(detail::new_unique_id(), 0, 2, {.deadline = 100ms}),
                       "gradsync[rank 0]: not all 2 ranks came to make NCCL's communicator before the deadline of 100 ms", timeout_error);
}
