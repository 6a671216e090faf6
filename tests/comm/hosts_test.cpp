// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

#include "gradsync/comm/hosts.hpp"

#include <doctest/doctest.h>

#include <mutex>
#include <utility>

#include "gradsync/comm/threads.hpp"

using namespace gradsync;

namespace {

host_map map_of(const std::vector<std::uint64_t>& ids) { return map_hosts(ids); }

}  // namespace

TEST_CASE("hosts are numbered by their lowest rank, and ranks on them from 0") {
  const host_map map = map_of({70, 5, 70, 0, 5, 70});
  CHECK(map.host == std::vector<int>{0, 1, 0, 2, 1, 0});
  CHECK(map.local_rank == std::vector<int>{0, 0, 1, 0, 1, 2});
  CHECK((map.ranks() == 6 && map.hosts() == 3));
  CHECK(map.ranks_on(0) == std::vector<int>{0, 2, 5});
  CHECK(map.ranks_on(2) == std::vector<int>{3});
  CHECK(map.ranks_per_host() == 0);
  CHECK_FALSE(map.in_order());
  CHECK((map_of({1, 1, 2, 2}).in_order() && map_of({1, 1, 2, 2}).ranks_per_host() == 2));
  CHECK((map_of({2, 2, 1}).in_order() && map_of({2, 2, 1}).ranks_per_host() == 0));
  CHECK((!map_of({1, 2, 1, 2}).in_order() && map_of({1, 2, 1, 2}).ranks_per_host() == 2));
}

TEST_CASE("a map of hosts is printed in short") {
  CHECK(describe(map_of({1, 1, 1, 2, 2})) == "5 ranks on 2 hosts\nhost 0: ranks 0 to 2\nhost 1: ranks 3, 4\n");
  CHECK(describe(map_of({1, 2, 1, 2})) == "4 ranks on 2 hosts, 2 on each\nhost 0: ranks 0, 2\nhost 1: ranks 1, 3\n");
  CHECK(describe(map_of({1, 2, 1, 1, 1})) == "5 ranks on 2 hosts\nhost 0: ranks 0, 2 to 4\nhost 1: rank 1\n");
  CHECK(describe(map_of({9})) == "1 rank on 1 host\nhost 0: rank 0\n");
}

TEST_CASE("ranks are split into those of a host, and those at one place of their hosts") {
  const std::vector<std::uint64_t> ids = {7, 8, 7, 9, 8, 7};
  thread_group(6).run([&](auto& comm) {
    const int rank = comm.rank();
    auto groups = split_by_host(comm, ids[static_cast<std::size_t>(rank)]);
    const host_map expected = map_of(ids);
    CHECK(groups.map.host == expected.host);
    const auto r = static_cast<std::size_t>(rank);
    CHECK(groups.inside.rank() == expected.local_rank[r]);
    CHECK(groups.inside.size() == static_cast<int>(expected.ranks_on(expected.host[r]).size()));
    const int sums_inside[] = {0 + 2 + 5, 1 + 4, 0 + 2 + 5, 3, 1 + 4, 0 + 2 + 5},
              sums_across[] = {0 + 1 + 3, 0 + 1 + 3, 2 + 4, 0 + 1 + 3, 2 + 4, 5};
    CHECK(groups.inside.all_reduce(rank) == sums_inside[r]);
    CHECK(groups.across.all_reduce(rank) == sums_across[r]);
    CHECK(groups.across.broadcast(rank) == std::vector<int>{0, 0, 2, 0, 2, 5}[r]);  // at place 0 the leaders
  });
}

TEST_CASE("ranks can be numbered so that those of a host follow each other") {
  const std::vector<std::uint64_t> ids = {7, 8, 7, 8, 7, 8};
  const int expected[] = {0, 3, 1, 4, 2, 5};
  thread_group(6).run([&](auto& comm) {
    const std::uint64_t mine = ids[static_cast<std::size_t>(comm.rank())];
    CHECK_FALSE(find_hosts(comm, mine).in_order());
    auto ordered = number_by_host(comm, mine);
    CHECK(ordered.rank() == expected[comm.rank()]);
    CHECK(ordered.size() == 6);
    CHECK(find_hosts(ordered, mine).in_order());
  });
}

TEST_CASE("a host has one number, and another one with another name") {
  CHECK(host_id() == host_id());
  CHECK(host_id() == host_id({.rank = 3, .size = 8}));
  CHECK(host_id({.host = "a"}) == host_id({.rank = 1, .size = 2, .host = "a"}));
  CHECK(host_id({.host = "a"}) != host_id({.host = "b"}));
  CHECK(host_id({.host = "a"}) != host_id());
}

TEST_CASE("a map of hosts is a topology for the simulator") {
  const gradsync::link near{.alpha = 1, .beta = 2, .gamma = 3}, far{.alpha = 4, .beta = 5, .gamma = 6};
  const topology two = topology_of(map_of({1, 1, 2, 2, 3, 3}), near, far);
  CHECK((two.tiers[0].units == 2 && two.tiers[0].wire.alpha == 1 && two.tiers[1].units == 0 && two.tiers[1].wire.alpha == 4));
  CHECK(two.refuses(6) == nullptr);
  CHECK((two.tier_between(0, 1) == 0 && two.tier_between(1, 2) == 1));
  CHECK(topology_of(map_of({1, 1}), near, far).tiers[0].wire.alpha == 1);
  CHECK(topology_of(map_of({1, 2}), near, far).tiers[0].wire.alpha == 4);
  CHECK_THROWS_AS(topology_of(map_of({1, 2, 1}), near, far), usage_error);
  CHECK_THROWS_AS(topology_of(map_of({1, 2, 1, 2}), near, far), usage_error);
}
