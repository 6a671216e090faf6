// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// Two levels that follow the hosts: `hierarchical` with the ranks of a host as a group, found out at the start, for any communicator.
///
/// The defaults are canonical where the number of ranks a host is a power of two, so bits are those of every other canonical strategy.
/// Refused is what two levels cannot be made of: hosts with unequal numbers of ranks, and ranks of a host that do not follow each other;
/// the message shows the hosts. With one rank a host the outer strategy runs alone, with one host the inner one.
///
///     gradsync::collective sum{comm, gradsync::over_hosts<>{.host = gradsync::host_id()}};
///     gradsync::collective sum{comm, gradsync::over_hosts<gradsync::ring, gradsync::ring>{.host = my_host_number}};
#pragma once

#include <cstdint>
#include <string>

#include "gradsync/collective/collective.hpp"
#include "gradsync/collective/halving_doubling.hpp"
#include "gradsync/collective/hierarchical.hpp"
#include "gradsync/collective/schedule.hpp"
#include "gradsync/comm/hosts.hpp"
#include "gradsync/comm/transport.hpp"
#include "gradsync/core/error.hpp"

namespace gradsync {

template <sharding Inner = halving_doubling, strategy Outer = halving_doubling>
struct over_hosts {
  std::uint64_t host = 0;  ///< this rank's host, as in comm/hosts.hpp
  Inner inner = {};
  Outer outer = {};

  constexpr const char* name() const { return "over_hosts"; }

  /// All ranks together; blocks. `usage_error` as above, or as `prove` throws it.
  template <transport Communicator>
  repertoire choose(Communicator& comm) const {
    const host_map map = find_hosts(comm, host);
    const int group = map.ranks_per_host();
    if (group == 0 || !map.in_order()) {
      std::string found = describe(map);
      found.pop_back();
      throw usage_error(std::string("over_hosts needs ") +
                            (group == 0 ? "equally many ranks on each host"
                                        : "the ranks of a host to follow each other, as number_by_host() numbers them") +
                            "; found are " + found,
                        place_of(comm, comm.rank()));
    }
    return {.programs = {prove(comm, hierarchical<Inner, Outer>{.inner = inner, .outer = outer, .group = group})}, .choices = {choice{}}};
  }
};

}  // namespace gradsync
