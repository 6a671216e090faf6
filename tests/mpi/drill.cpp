// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

// One drill, as a program for mpirun.
//
//     mpirun -np 3 mpi_drill kill 1 5 0 ring       # SIGKILL of rank 1 in its sixth bucket, before round 0
//
// Each rank says what it ended with, `gradsync[rank 0]: ...`, and returns 1 then.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <optional>

#include "gradsync/comm/mpi.hpp"
#include "tests/drills/process_drill.hpp"

int main(int argc, char** argv) {
  if (argc < 6) return 2;
  const drills::process_drill d{argv[1], std::atoi(argv[2]), std::atoi(argv[3]), std::atoi(argv[4]), argv[5]};
  std::optional<gradsync::mpi_group> ranks;
  try {
    ranks.emplace(gradsync::mpi_group_options{.deadline = std::chrono::milliseconds(1500)});
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
  try {
    ranks->run([&](auto& comm) { drills::train(d, comm); });
    return 0;
  } catch (const std::exception&) {  // run() has said it
    return 1;
  }
}
