// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

// How fast is an all-reduce here, and how near to what memory allows?
//
//     bazel run -c opt //examples/bench:allreduce -- --ranks 2 --strategy native,ring,halving_doubling,tree --mode both
//     torchrun --no-python --nproc-per-node 2 bazel-bin/examples/bench/allreduce          # processes that share memory
//     mpirun -np 2 bazel-bin/examples/bench/allreduce                                     # messages, where it was built with MPI
//
// The columns are those of nccl-tests; beside them the strategy, what it runs for that size, where the cores were to each other, and the
// limit. How it measures: measure.hpp; what was measured: RESULTS.md.
#include <exception>
#include <iostream>

#include "examples/bench/report.hpp"
#include "gradsync/comm/threads.hpp"

namespace {

bench::measured measure(const bench::options& chosen) {
  if (auto over_processes = bench::measure_over_processes(chosen)) return *over_processes;
  bench::measured all{.rank = 0, .size = chosen.ranks, .transport = "threads", .rows = {}};
  gradsync::thread_group{chosen.ranks}.run([&](auto& comm) {
    auto rows = bench::measure(comm, chosen);
    if (comm.rank() == 0) all.rows = std::move(rows);
  });
  return all;
}

}  // namespace

int main(int argc, char** argv) {
  const bench::command_line asked = bench::parse_command_line("allreduce", argc, argv);
  if (!asked.text.empty()) {
    (asked.exit_code == 0 ? std::cout : std::cerr) << asked.text << std::endl;
    return asked.exit_code;
  }
  try {
    const bench::measured all = measure(asked.chosen);
    if (all.rank != 0) return 0;
    const auto about = bench::about_this_run(argc, argv);
    const bench::table shown = bench::table_of(all, asked.chosen);
    std::cout << "# " << all.size << " " << all.transport << ", in place\n";
    shown.print(std::cout);
    if (!asked.chosen.json.empty()) bench::write_json(asked.chosen.json, about, shown);
    if (!asked.chosen.plot.empty()) bench::write_svg(asked.chosen.plot, bench::chart_of(all, asked.chosen));
    bool right = true;
    for (const bench::row& r : all.rows) right = right && r.wrong == 0;
    return std::cout.flush() && right ? 0 : 1;
  } catch (const std::exception& problem) {
    std::cerr << "allreduce: " << problem.what() << '\n';
    return 1;
  }
}
