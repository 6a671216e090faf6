// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

// How fast are others at the same all-reduce, on this machine, at this moment?
//
//     bazel run -c opt //examples/bench:peers -- --ranks 2
//
// Starts whatever there is of Open MPI (with malloc as it comes, and told to keep its memory), MPICH, Gloo and PyTorch, builds their small
// programs (examples/bench/peers) where need be, and takes a sample of each in turn. Whoever is not asked sleeps. Ratios are to our own
// median with the cores in the same place; above 1 we are faster. What was measured: RESULTS.md.
#include <algorithm>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <iostream>
#include <string>
#include <vector>

#include "examples/bench/contestants.hpp"
#include "examples/bench/options.hpp"
#include "examples/bench/peers/serve.hpp"
#include "examples/bench/statistics.hpp"
#include "examples/bench/table.hpp"
#include "gradsync/collective/run.hpp"
#include "gradsync/collective/collective.hpp"
#include "gradsync/comm/threads.hpp"

namespace {

void serve(const std::string& folder, int ranks) {
  gradsync::thread_group{ranks}.run([&](auto& comm) {
    const gradsync::collective sum{comm};
    auto channel = comm.open(1);
    bench::serve(
        folder, comm.rank(), comm.size(),
        [&](float* at, std::size_t n) {
          const gradsync::extent all{reinterpret_cast<std::byte*>(at), 0, n};
          const gradsync::program& p = sum.steps(n * sizeof(float));
          const gradsync::deadline until = comm.limit();
          gradsync::cursor place{.place = channel.post(p, {.buffer = {gradsync::dtype::float32, std::span(&all, 1)},
                                                           .scale = 1,
                                                           .weight = comm.rank() == 0 ? 1.0 : 0.0,
                                                           .call = 0})};
          gradsync::run(p, channel, place, until);
          channel.drain(p, place.place, until);
        },
        [&] { comm.barrier(); });
  });
}

std::vector<bench::running> start(int ranks, const std::string& self, const std::string& scratch) {
  std::vector<bench::running> all;
  for (const bench::contestant& c : bench::contestants(self)) {
    if (ranks > static_cast<int>(bench::cpus_at_start().size()) && !c.crowds) {
      std::cout << "# left out: " << c.name << ", which spins for ever where ranks outnumber cores" << std::endl;
    } else if (!bench::succeeds(c.needs)) {
      std::cout << "# missing: " << c.name << " (" << c.needs << ")" << std::endl;
    } else {
      try {
        all.emplace_back(c, ranks, scratch);
        all.back().wrong(64);
      } catch (const std::exception& problem) {
        std::cout << "# missing: " << c.name << " " << problem.what() << std::endl;
        if (!all.empty() && all.back().name() == c.name) all.pop_back();
      }
    }
  }
  return all;
}

void compare(std::vector<bench::running>& all, const bench::options& chosen, std::size_t bytes, bool produced,
             bench::placement_probe& probe, bench::table& shown) {
  std::vector<double> wrong;
  std::vector<int> times;
  for (bench::running& one : all) {
    wrong.push_back(one.wrong(bytes));
    one.sample(bytes, 1, produced);
    times.push_back(produced ? 1 : static_cast<int>(std::clamp(200e-6 / one.sample(bytes, 3, false), 1.0, 100.0)));
  }
  std::vector<bench::samples> of(all.size());
  for (int i = 0; i < chosen.samples; ++i)
    for (std::size_t c = 0; c < all.size(); ++c) {
      const double before = probe.round_trip_ns(), seconds = all[c].sample(bytes, times[c], produced);
      of[c].add(bench::placement_between(before, probe.round_trip_ns()), seconds);
    }
  for (const bench::placement where : bench::labels)
    for (std::size_t c = 0; c < all.size(); ++c) {
      const std::size_t count = std::min(of[0].at(where).size(), of[c].at(where).size());
      if (5 * count < static_cast<std::size_t>(chosen.samples)) continue;
      const double seconds = of[c].median(where);
      shown.add({static_cast<std::int64_t>(bytes), produced ? "produced" : "hot", bench::name_of(where), all[c].name(),
                 static_cast<std::int64_t>(of[c].at(where).size()), seconds * 1e6, seconds / of[0].median(where),
                 static_cast<std::int64_t>(wrong[c])});
    }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 4 && std::string(argv[1]) == "--serve") {
    serve(argv[2], std::stoi(argv[3]));
    return 0;
  }
  const bench::command_line asked = bench::parse_command_line("peers", argc, argv);
  if (!asked.text.empty()) {
    (asked.exit_code == 0 ? std::cout : std::cerr) << asked.text << std::endl;
    return asked.exit_code;
  }
  const bench::options& chosen = asked.chosen;
  try {
    const std::string self = std::filesystem::canonical("/proc/self/exe").string();
    if (const char* sources = std::getenv("BUILD_WORKSPACE_DIRECTORY")) std::filesystem::current_path(sources);
    if (!std::filesystem::exists("examples/bench/peers/mpi.cpp"))
      throw std::runtime_error("examples/bench/peers is not here; start this from the folder of the sources, or with bazel run");
    std::string scratch = (std::filesystem::temp_directory_path() / "gradsync-peers-XXXXXX").string();
    if (mkdtemp(scratch.data()) == nullptr) throw std::runtime_error(scratch + " can't be made");
    {
      std::vector<bench::running> all = start(chosen.ranks, self, scratch);
      bench::pin_to(0);
      bench::placement_probe probe;
      bench::table shown({{"size", "B"}, {"mode"}, {"cores"}, {"who"}, {"samples"}, {"time", "us"}, {"ratio", "to gradsync"}, {"#wrong"}});
      for (std::size_t bytes = chosen.least_bytes; bytes <= chosen.most_bytes; bytes *= chosen.factor)
        for (const bool produced : {false, true})
          if (produced ? chosen.produced : chosen.hot) compare(all, chosen, bytes, produced, probe, shown);
      std::cout << "# " << chosen.ranks << " ranks, float, sum, in place\n";
      shown.print(std::cout);
      if (!chosen.json.empty()) bench::write_json(chosen.json, bench::about_this_run(argc, argv), shown);
    }
    std::filesystem::remove_all(scratch);
    return std::cout.flush() ? 0 : 1;
  } catch (const std::exception& problem) {
    std::cerr << "peers: " << problem.what() << '\n';
    return 1;
  }
}
