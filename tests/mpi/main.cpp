// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

// The main of tests that run under mpirun: every process runs all test cases, rank 0 alone reports, and the others speak up if they fail.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <optional>
#include <sstream>

#include "tests/mpi/processes.hpp"

namespace {

std::optional<gradsync::mpi_group> group;

}  // namespace

gradsync::mpi_group& gradsync::laws::processes() { return *group; }

int main(int argc, char** argv) {
  group.emplace(gradsync::mpi_group_options{.deadline = std::chrono::minutes(1), .errors = nullptr});
  std::ostringstream said;
  doctest::Context context;
  context.setOption("no-colors", true);  // Open MPI gives its processes a terminal, and colours end up in the log
  if (const char* filter = std::getenv("TESTBRIDGE_TEST_ONLY")) context.addFilter("test-case", filter);
  context.applyCommandLine(argc, argv);
  if (group->rank() != 0) context.setCout(&said);
  int failed = context.run();
  if (group->rank() != 0 && failed != 0) std::fprintf(stderr, "rank %d:\n%s", group->rank(), said.str().c_str());
  try {
    group->run([&](auto& comm) { failed = comm.all_reduce(failed, gradsync::reduce_op::max); });
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    failed = 1;
  }
  group.reset();
  return failed;
}
