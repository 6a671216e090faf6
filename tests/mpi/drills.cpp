// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

// Starts drills (tests/mpi/drill.cpp) under the launcher, and looks at how they end: in time, with an error of every rank that lives, which
// names the one that doesn't.
#include <doctest/doctest.h>

#include <sys/wait.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace {

struct ending {
  int status = 0;
  std::string said;
  double seconds = 0;
};

ending perform(int ranks, const std::string& drill) {
  const char *launcher = std::getenv("GRADSYNC_LAUNCHER"), *program = std::getenv("GRADSYNC_PROGRAM");
  REQUIRE(launcher != nullptr);
  REQUIRE(program != nullptr);
  const std::string command = std::string(launcher) + " -np " + std::to_string(ranks) + " " + program + " " + drill + " 2>&1";
  const auto begin = std::chrono::steady_clock::now();
  ending end;
  std::FILE* const pipe = popen(command.c_str(), "r");
  REQUIRE(pipe != nullptr);
  for (char text[512]; std::fgets(text, sizeof text, pipe) != nullptr;) end.said += text;
  const int status = pclose(pipe);
  end.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128;
  end.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return end;
}

// What the given rank has said, up to the end of that line; nothing if it hasn't spoken.
std::string line_of(int rank, const ending& end) {
  const std::string text = "\n" + end.said, begins = "\ngradsync[rank " + std::to_string(rank) + "]";
  const std::size_t at = text.find(begins);
  return at == text.npos ? "" : text.substr(at + 1, text.find('\n', at + 1) - at - 1);
}

// A deadline, the questions after it, and the time that others get to come to their end; and the start of it all on a busy machine.
constexpr double in_time = 1.5 + 1.5 + 1 + 3 + 15;

void check_ends(int ranks, int victim, const std::string& drill, const std::string& told) {
  const ending end = perform(ranks, drill);
  INFO(drill << " on " << ranks << " ranks, after " << end.seconds << " s:\n" << end.said);
  CHECK(end.status != 0);
  CHECK(end.seconds < in_time);
  for (int rank = 0; rank < ranks; ++rank)
    if (rank != victim) CHECK(line_of(rank, end).find("rank " + std::to_string(victim) + " " + told) != std::string::npos);
}

std::string on(const char* what, int victim, int collective, int round, const char* strategy) {
  return std::string(what) + " " + std::to_string(victim) + " " + std::to_string(collective) + " " + std::to_string(round) + " " + strategy;
}

}  // namespace

TEST_CASE("without trouble, or with a late rank, training comes to its end") {
  for (const char* strategy : {"native", "ring", "tree"})
    for (const char* what : {"none", "slow"}) {
      const ending end = perform(3, on(what, 1, 4, 0, strategy));
      INFO(end.said);
      CHECK(end.status == 0);
    }
}

TEST_CASE("an exception on any rank is told to all") {
  for (int victim = 0; victim < 3; ++victim)
    for (const int collective : {0, 4}) {
      check_ends(3, victim, on("exception", victim, collective, 0, "native"), "failed: the batch is not a number");
    }
  const ending end = perform(2, on("exception", 1, 3, 0, "ring"));
  CHECK(line_of(1, end) == "gradsync[rank 1]: ended by the batch is not a number");
}

TEST_CASE("a rank that returns in the middle of an update is missed") {
  check_ends(3, 0, on("return", 0, 4, 0, "native"),
             "failed: gradsync[rank 0] step 1 bucket 0 \"layer[2]\": its synchronizer was destroyed");
  check_ends(3, 2, on("return", 2, 3, 0, "ring"), "has returned from its function");
}

TEST_CASE("a process that is stopped in the middle of a bucket is named by all others") {
  check_ends(3, 0, on("stop", 0, 4, 1, "ring"), "did not come before the deadline of 1500 ms");
  check_ends(4, 2, on("stop", 2, 5, 1, "tree"), "did not come before the deadline of 1500 ms");
  check_ends(2, 1, on("stop", 1, 2, 0, "native"), "did not come before the deadline of 1500 ms");
  check_ends(3, 1, on("stop", 1, 3, -1, "native"), "did not come before the deadline of 1500 ms");
}

// The launcher sees it die, and ends the job.
TEST_CASE("a process that is killed in the middle of a bucket ends the job") {
  for (const char* strategy : {"native", "ring"})
    for (const int round : {-1, 0, 1}) {
      const ending end = perform(3, on("kill", 1, 5, round, strategy));
      INFO(end.said);
      CHECK(end.status != 0);
      CHECK(end.seconds < in_time);
      CHECK((line_of(0, end).find("rank 1 ") != std::string::npos || end.said.find("signal 9") != std::string::npos));
    }
}
