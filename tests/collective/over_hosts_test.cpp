// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

#include "gradsync/collective/over_hosts.hpp"

#include <doctest/doctest.h>

#include "gradsync/collective/ring.hpp"
#include "gradsync/comm/threads.hpp"
#include "tests/laws/transport_laws.hpp"

using namespace gradsync;

namespace {

std::uint64_t host_of(int rank, int group) { return static_cast<std::uint64_t>(100 + rank / group); }

}  // namespace

TEST_CASE("two levels follow the hosts, and give the mean with the bits of the canonical tree") {
  for (const auto& [size, group] : {std::pair(8, 2), std::pair(8, 4), std::pair(6, 2), std::pair(4, 4), std::pair(4, 1), std::pair(1, 1)})
    thread_group(size).run([group = group](auto& comm) {
      const collective sum{comm, over_hosts<>{.host = host_of(comm.rank(), group)}};
      CHECK(sum.name() == "over_hosts");
      CHECK(sum.steps().name == "hierarchical(halving_doubling, halving_doubling)");
      const hierarchical<halving_doubling> expected{.group = group};
      CHECK(sum.steps().rounds() == expected.rounds(comm.size()));
      CHECK(sum.reproducibility() == expected.claim(comm.size()));
      if (comm.size() == 1) return;
      auto channel = comm.open(1);
      const bool canonical = sum.reproducibility() == level::canonical;
      for (const std::size_t count : {1u, 257u, 3001u})
        laws::mean_law<float>(comm, channel, sum.steps(), canonical, {.count = count, .seed = count, .weighted = true});
    });
}

TEST_CASE("each level may be a strategy of your own choice") {
  thread_group(6).run([](auto& comm) {
    const collective sum{comm, over_hosts<ring, ring>{.host = host_of(comm.rank(), 3)}};
    CHECK(sum.steps().name == "hierarchical(ring, ring)");
    CHECK(sum.steps().rounds() == 2 * (3 - 1) + 2 * (2 - 1));
    CHECK(sum.reproducibility() == level::agreed);
  });
}

TEST_CASE("hosts of which two levels cannot be made are refused, and shown") {
  const auto refused = [](std::vector<std::uint64_t> ids, const char* message) {
    CHECK_THROWS_WITH_AS(thread_group(static_cast<int>(ids.size())).run([&](auto& comm) {
      if (comm.rank() != 0) return static_cast<void>(find_hosts(comm, ids[static_cast<std::size_t>(comm.rank())]));
      collective(comm, over_hosts<>{.host = ids[0]});
    }),
                         message, usage_error);
  };
  refused({1, 1, 2},
          "gradsync[rank 0]: over_hosts needs equally many ranks on each host; found are 3 ranks on 2 hosts\nhost 0: ranks 0, 1\nhost 1: "
          "rank 2");
  refused({1, 2, 1, 2},
          "gradsync[rank 0]: over_hosts needs the ranks of a host to follow each other, as number_by_host() numbers them; found are 4 "
          "ranks on 2 "
          "hosts, 2 on each\nhost 0: ranks 0, 2\nhost 1: ranks 1, 3");
}

TEST_CASE("ranks in no order are numbered anew, and then it works") {
  thread_group(4).run([](auto& comm) {
    const auto host = static_cast<std::uint64_t>(comm.rank() % 2);
    auto ordered = number_by_host(comm, host);
    CHECK(collective(ordered, over_hosts<>{.host = host}).steps().rounds() == 4);
  });
}
