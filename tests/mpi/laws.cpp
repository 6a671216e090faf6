// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0
#include "gradsync/comm/mpi.hpp"

#include <doctest/doctest.h>

#include "tests/mpi/processes.hpp"

using namespace gradsync;
using laws::over_processes;
using laws::processes;

TEST_CASE("processes obey the laws of a communicator") { laws::communicator_laws(over_processes, processes().size()); }

TEST_CASE("processes obey the laws of channels") { laws::channel_laws(over_processes); }

TEST_CASE("every strategy gives the mean over processes") {
  processes().run([](auto& comm) { laws::mean_laws_of<float>(comm), laws::mean_laws_of<double>(comm); });
}

TEST_CASE("processes obey the laws of failure") {
  if (processes().size() >= 5) laws::failure_laws(over_processes);
}
