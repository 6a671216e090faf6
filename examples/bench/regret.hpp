// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// How much slower than the best strategy is the one that `automatic` takes?
///
///     const bench::regret::findings found = bench::regret::measure(chosen);   // over threads; of `chosen`, ranks, sizes and samples
///     bench::regret::table_of(found, chosen.ranks).print(std::cout);
///
/// A sample: `automatic` measures and chooses, once with the transport's own pass and once without it, and all candidates are timed in
/// turn. Samples are labelled by the placement of the cores, and compared within a label only. Of each candidate the median counts; the
/// regret of a choice is what it takes longer than the fastest candidate, and the median of all samples' regrets is printed.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "examples/bench/options.hpp"
#include "examples/bench/statistics.hpp"
#include "examples/bench/table.hpp"
#include "gradsync/gradsync.hpp"

namespace bench::regret {

using gradsync::automatic, gradsync::collective, gradsync::level, gradsync::program, gradsync::thread_communicator;

struct candidate {
  program steps;
  std::map<std::size_t, samples> seconds{};  // by bytes
};

inline std::vector<candidate> candidates(thread_communicator& comm) {
  std::vector<candidate> all;
  const auto offer = [&](const auto& strategy) {
    auto [steps, bits] = prove(comm, strategy);
    if (bits == level::canonical) all.push_back({std::move(steps)});
  };
  offer(gradsync::native{});
  offer(gradsync::direct{});
  offer(gradsync::recursive_doubling{});
  offer(gradsync::halving_doubling{});
  offer(gradsync::tree{.segments = 1});
  for (const int segments : {4, 16}) offer(gradsync::double_tree{.segments = segments});
  return all;
}

inline std::size_t number_of(const std::vector<candidate>& all, const program& p) {
  std::size_t i = 0;
  while (all[i].steps.name != p.name || all[i].steps.chunks != p.chunks) ++i;
  return i;
}

inline std::string text_of(const program& p) {
  return p.name + (p.name.find("tree") == p.name.npos ? "" : " of " + std::to_string(p.chunks));
}

// Which candidate each sample took for so many bytes, by its label; and how long it took to choose.
struct choices {
  std::map<std::size_t, std::map<placement, std::vector<std::size_t>>> taken{};
  std::vector<double> seconds{};
};

/// Of all samples.
struct findings {
  std::vector<candidate> all{};
  choices by[2]{};  // without the transport's own pass, and with it
};

inline void measure(thread_communicator& comm, const options& chosen, findings& found) {
  if (chosen.ranks <= static_cast<int>(cpus_at_start().size())) pin_to(comm.rank());
  std::vector<candidate> all = candidates(comm);
  gradsync::stopwatch watch{comm, chosen.most_bytes};
  std::optional<placement_probe> probe;
  if (comm.rank() == 0) probe.emplace();
  for (int sample = -1; sample < chosen.samples; ++sample) {  // the first one warms up
    const double before = probe ? probe->round_trip_ns() : 0;
    comm.barrier();
    std::vector<std::map<std::size_t, double>> took(all.size());
    std::map<std::size_t, std::size_t> taken[2];
    for (const bool pass : {false, true}) {
      const auto begin = std::chrono::steady_clock::now();
      const collective sum{comm, automatic{.transport_pass = pass}};
      if (sample >= 0 && comm.rank() == 0)
        found.by[pass].seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
      for (std::size_t bytes = chosen.least_bytes; bytes <= chosen.most_bytes; bytes *= chosen.factor)
        taken[pass][bytes] = number_of(all, sum.steps(bytes));
    }
    for (std::size_t bytes = chosen.least_bytes; bytes <= chosen.most_bytes; bytes *= chosen.factor) {
      std::vector<std::vector<double>> seconds(all.size());
      for (int repeat = 0; repeat < 5; ++repeat)
        for (std::size_t c = 0; c < all.size(); ++c) {
          watch.time(all[c].steps, bytes);  // what another one has left in the caches would count otherwise
          seconds[c].push_back(watch.time(all[c].steps, bytes));
        }
      for (std::size_t c = 0; c < all.size(); ++c) took[c][bytes] = median(seconds[c]);
    }
    comm.barrier();
    if (!probe || sample < 0) continue;
    const placement where = placement_between(before, probe->round_trip_ns());
    for (std::size_t c = 0; c < all.size(); ++c)
      for (const auto& [bytes, seconds] : took[c]) all[c].seconds[bytes].add(where, seconds);
    for (const bool pass : {false, true})
      for (const auto& [bytes, which] : taken[pass]) found.by[pass].taken[bytes][where].push_back(which);
  }
  if (comm.rank() == 0) found.all = std::move(all);
}

inline table table_of(const findings& found, int ranks) {
  table shown{
      {{"ranks"}, {"size", "B"}, {"placement"}, {"samples"}, {"candidates"}, {"fastest"}, {"time", "us"}, {"taken"}, {"regret", "%"}}};
  for (const bool pass : {true, false})
    for (const auto& [bytes, by_label] : found.by[pass].taken)
      for (const auto& [where, taken] : by_label) {
        const auto seconds = [&, bytes = bytes, where = where](std::size_t c) { return found.all[c].seconds.at(bytes).median(where); };
        std::size_t best = pass ? 0 : 1;  // the first candidate is the pass
        for (std::size_t c = best; c < found.all.size(); ++c)
          if (seconds(c) < seconds(best)) best = c;
        std::vector<double> regrets;
        std::map<std::size_t, int> times;
        for (const std::size_t c : taken) regrets.push_back(100 * (seconds(c) / seconds(best) - 1)), ++times[c];
        std::size_t mostly = taken.front();
        for (const auto& [c, count] : times)
          if (count > times[mostly]) mostly = c;
        shown.add({std::int64_t{ranks}, static_cast<std::int64_t>(bytes), std::string(name_of(where)),
                   static_cast<std::int64_t>(taken.size()), std::string(pass ? "all" : "no pass"), text_of(found.all[best].steps),
                   1e6 * seconds(best), text_of(found.all[mostly].steps), median(regrets)});
      }
  return shown;
}

inline findings measure(const options& chosen) {
  findings found;
  gradsync::thread_group{chosen.ranks}.run([&](auto& comm) { measure(comm, chosen, found); });
  return found;
}

}  // namespace bench::regret
