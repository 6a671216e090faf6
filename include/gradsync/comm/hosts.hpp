// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// Which ranks share a host, and groups that follow from it. A host is a number that is the same on all its ranks and on no other:
/// `host_id()` for processes; with threads, one of your own.
///
///     auto groups = gradsync::split_by_host(comm, gradsync::host_id());
///     if (comm.rank() == 0) std::cout << describe(groups.map);   // 8 ranks on 2 hosts, 4 on each …
///     groups.inside.barrier();        // with the ranks of this host, by rank
///     groups.across.barrier();        // with those that have this rank's place on their hosts; at place 0 the leaders
///
/// Strategies of two levels come from it without more: collective/over_hosts.hpp.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fcntl.h>   // which boot of the host this is
#include <unistd.h>  // the host's name

#include "gradsync/comm/launch.hpp"
#include "gradsync/comm/transport.hpp"
#include "gradsync/core/error.hpp"
#include "gradsync/core/link.hpp"
#include "gradsync/core/reduce_op.hpp"
#include "gradsync/core/topology.hpp"

namespace gradsync {

/// A transport that makes groups of parts of itself.
template <class T>
concept splittable_transport = transport<T> && requires(T& t) {
  { t.split(0, 0) } -> std::same_as<T>;
};

/// Hosts are numbered from 0, by the lowest of their ranks.
struct host_map {
  std::vector<int> host{};        ///< of each rank
  std::vector<int> local_rank{};  ///< of each rank: how many lower ones share its host

  int ranks() const { return static_cast<int>(host.size()); }
  int hosts() const { return host.empty() ? 0 : 1 + *std::max_element(host.begin(), host.end()); }

  std::vector<int> ranks_on(int h) const {
    std::vector<int> found;
    for (int r = 0; r < ranks(); ++r)
      if (host[static_cast<std::size_t>(r)] == h) found.push_back(r);
    return found;
  }

  /// Of each host; 0 if they differ.
  int ranks_per_host() const {
    const int first = static_cast<int>(std::count(host.begin(), host.end(), 0));
    for (int h = 1; h < hosts(); ++h)
      if (std::count(host.begin(), host.end(), h) != first) return 0;
    return first;
  }

  /// Whether the ranks of each host follow each other.
  bool in_order() const { return std::is_sorted(host.begin(), host.end()); }
};

/// From the number of each rank's host.
inline host_map map_hosts(std::span<const std::uint64_t> ids) {
  host_map map;
  int hosts = 0;
  for (std::size_t r = 0; r < ids.size(); ++r) {
    const auto first = static_cast<std::size_t>(std::find(ids.begin(), ids.end(), ids[r]) - ids.begin());
    map.host.push_back(first == r ? hosts++ : map.host[first]);
    map.local_rank.push_back(static_cast<int>(std::count(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(r), ids[r])));
  }
  return map;
}

/// All ranks together; blocks.
template <transport Communicator>
host_map find_hosts(Communicator& comm, std::uint64_t id) {
  std::vector<std::uint64_t> ids(static_cast<std::size_t>(comm.size()));
  ids[static_cast<std::size_t>(comm.rank())] = id;
  comm.all_reduce(std::span<std::uint64_t>(ids), reduce_op::sum);  // each rank adds its own to zeros
  return map_hosts(ids);
}

template <splittable_transport Communicator>
struct host_groups {
  host_map map;
  Communicator inside, across;
};

/// All ranks together; blocks.
template <splittable_transport Communicator>
host_groups<Communicator> split_by_host(Communicator& comm, std::uint64_t id) {
  host_map map = find_hosts(comm, id);
  const auto r = static_cast<std::size_t>(comm.rank());
  Communicator inside = comm.split(map.host[r], comm.rank());
  Communicator across = comm.split(map.local_rank[r], comm.rank());
  return {std::move(map), std::move(inside), std::move(across)};
}

/// The same ranks, numbered so that those of a host follow each other. All ranks together; blocks.
template <splittable_transport Communicator>
Communicator number_by_host(Communicator& comm, std::uint64_t id) {
  const host_map map = find_hosts(comm, id);
  return comm.split(0, map.host[static_cast<std::size_t>(comm.rank())]);  // ranks of one host, which have one key, keep their order
}

/// The host of this process: by your name for it (`launch::host`), else by its own and its boot, which differ where names do not.
inline std::uint64_t host_id(const launch& me = {}) {
  std::string name = me.host;
  if (name.empty()) {
    char text[256] = "", boot[64] = "";
    gethostname(text, sizeof text - 1);
    if (const int file = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC); file >= 0) {
      if (read(file, boot, sizeof boot - 1) < 0) boot[0] = '\0';  // no boot is known then: the name has to do
      close(file);
    }
    name = std::string(text) + "/" + boot;
  }
  std::uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

/// What `simulate` wants to know of it; only where all hosts have equally many ranks, which follow each other.
inline topology topology_of(const host_map& map, const link& inside, const link& between) {
  const int group = map.ranks_per_host();
  if (group == 0 || !map.in_order()) throw usage_error("a topology has equally many ranks on each host, and they follow each other");
  if (group == 1 || map.hosts() == 1) return flat(map.hosts() == 1 ? inside : between);
  return {.tiers = {{.units = group, .wire = inside, .nics = 0}, {.units = 0, .wire = between, .nics = 0}}};
}

namespace detail {

// Ascending numbers in short: "0 to 3, 8".
inline std::string in_runs(const std::vector<int>& numbers) {
  std::string text;
  for (std::size_t i = 0, end; i < numbers.size(); i = end) {
    for (end = i + 1; end < numbers.size() && numbers[end] == numbers[end - 1] + 1;) ++end;
    text += (i == 0 ? "" : ", ") + std::to_string(numbers[i]);
    if (end - i > 1) text += (end - i > 2 ? " to " : ", ") + std::to_string(numbers[end - 1]);
  }
  return text;
}

}  // namespace detail

/// A line for all, and one for each host:
///
///     5 ranks on 2 hosts
///     host 0: ranks 0 to 2
///     host 1: ranks 3, 4
inline std::string describe(const host_map& map) {
  std::string text = std::to_string(map.ranks()) + (map.ranks() == 1 ? " rank on " : " ranks on ") + std::to_string(map.hosts()) +
                     (map.hosts() == 1 ? " host" : " hosts");
  if (const int group = map.ranks_per_host(); map.hosts() > 1 && group > 0) text += ", " + std::to_string(group) + " on each";
  text += "\n";
  for (int h = 0; h < map.hosts(); ++h) {
    const std::vector<int> here = map.ranks_on(h);
    text += "host " + std::to_string(h) + (here.size() == 1 ? ": rank " : ": ranks ") + detail::in_runs(here) + "\n";
  }
  return text;
}

}  // namespace gradsync
