// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

// Starts drills (tests/mpi/drill.cpp) under the launcher, some at a time, and looks at how they end: in time, with an error of every rank
// that lives, which names the one that doesn't.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <thread>
#include <vector>

#include "tests/drills/process_drill.hpp"
#include "tests/mpi/launcher.hpp"

using drills::process_drill;
using mpi_launcher::ending;

namespace {

// A deadline, the questions after it, and the time that others get to come to their end; and the start of it all on a busy machine.
constexpr double in_time = 1.5 + 1.5 + 1 + 3 + 15;
constexpr std::size_t at_once = 8;  // they mostly wait

std::vector<ending> endings(int ranks, const std::vector<process_drill>& table) {
  std::vector<ending> ends(table.size());
  for (std::size_t first = 0; first < table.size(); first += at_once) {
    std::vector<std::thread> some;
    for (std::size_t i = first; i < std::min(table.size(), first + at_once); ++i)
      some.emplace_back([&, i] { ends[i] = mpi_launcher::start(ranks, table[i].text()); });
    for (std::thread& one : some) one.join();
  }
  return ends;
}

void expect_errors(int ranks, const std::vector<process_drill>& table) {
  const std::vector<ending> ends = endings(ranks, table);
  for (std::size_t i = 0; i < table.size(); ++i) {
    const process_drill& d = table[i];
    const ending& end = ends[i];
    INFO(d.text() << " on " << ranks << " ranks, after " << end.seconds << " s:\n" << end.said);
    CHECK(end.status != 0);
    CHECK(end.seconds < in_time);
    for (int rank = 0; rank < ranks; ++rank)
      if (rank != d.victim) CHECK(d.is_told(end.line_of(rank)));
  }
}

}  // namespace

TEST_CASE("without trouble, or with a late rank, training comes to its end") {
  std::vector<process_drill> table;
  for (const char* strategy : {"native", "ring", "tree"})
    for (const char* what : {"none", "slow"}) table.push_back({what, 1, 4, 0, strategy});
  for (const ending& end : endings(3, table)) CHECK_MESSAGE(end.status == 0, end.said);
}

TEST_CASE("an exception on any rank is told to all") {
  expect_errors(3, drills::drill_table("exception", 3, 2));
  const ending end = mpi_launcher::start(2, process_drill{"exception", 1, 3, 0, "ring"}.text());
  CHECK(end.line_of(1) == "gradsync[rank 1]: ended by the batch is not a number");
}

TEST_CASE("a rank that returns in the middle of an update is missed") { expect_errors(3, drills::drill_table("return", 3, 2)); }

TEST_CASE("a process that is stopped in the middle of a bucket is named by all others") {
  expect_errors(3, drills::drill_table("stop", 3, 2));
  expect_errors(4, {{"stop", 2, 5, 1, "tree"}});
}

// The launcher sees it die, and ends the job. MPICH's does not say which it was, nor does UCX, which may notice it before.
TEST_CASE("a process that is killed in the middle of a bucket ends the job") {
  const std::vector<process_drill> table = drills::drill_table("kill", 3, 2);
  const std::vector<ending> ends = endings(3, table);
  for (std::size_t i = 0; i < table.size(); ++i) {
    INFO(table[i].text() << " after " << ends[i].seconds << " s:\n" << ends[i].said);
    CHECK(ends[i].status != 0);
    CHECK(ends[i].seconds < in_time);
    const std::string victim = "rank " + std::to_string(table[i].victim);
    const int other = table[i].victim == 0 ? 1 : 0;
    if (mpi_launcher::is_open_mpi())
      CHECK((ends[i].line_of(other).find(victim + " ") != std::string::npos || ends[i].said.find("signal 9") != std::string::npos));
  }
}

TEST_CASE("a launcher that disagrees with MPI's world is one clear error") {
  const std::string program = mpi_launcher::from_environment("GRADSYNC_PROGRAM") + " " + process_drill{"none", 0, 0, 0, "native"}.text();
  const auto refused = [](const std::string& said, int rank, const char* names) {
    const std::string r = std::to_string(rank), n = std::string(names) + "RANK=" + r + ", " + names + "SIZE=2";
    return said.find("gradsync: this process is rank " + r + " of 2 by " + n) != said.npos &&
           said.find(", but MPI sees rank 0 of 1; start the program with the mpirun of the MPI it was built with\n") != said.npos;
  };
  const ending alone = mpi_launcher::run("GRADSYNC_RANK=1 GRADSYNC_SIZE=2 " + program);
  CHECK(alone.status == 1);
  CHECK_MESSAGE(refused(alone.said, 1, "GRADSYNC_"), alone.said);

  // The launcher of the other MPI, where both are installed.
  const bool open_mpi = mpi_launcher::is_open_mpi();
  const std::string other = open_mpi ? "mpirun.mpich" : "mpirun.openmpi";
  if (mpi_launcher::run("command -v " + other).status != 0) {
    MESSAGE("there is no ", other);
    return;
  }
  const ending end = mpi_launcher::run("timeout 30 " + other + " -np 2 " + program);
  CHECK(end.status != 0);
  INFO(end.said);
  if (open_mpi) CHECK((refused(end.said, 0, "PMI_") || refused(end.said, 1, "PMI_")));
  else CHECK((refused(end.said, 0, "OMPI_COMM_WORLD_") || refused(end.said, 1, "OMPI_COMM_WORLD_")));
}
