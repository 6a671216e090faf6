// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

// Trouble of each rank of a process_group, with several strategies, before a mark and in mid-bucket: every other process ends in time, and
// with an error that names the rank. Drills of one kind run side by side, since they mostly wait.
#include <doctest/doctest.h>

#include <sys/mman.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/drills/process_drill.hpp"
#include "tests/laws/over_forks.hpp"

using namespace gradsync;
using namespace std::chrono_literals;
using drills::process_drill;

REGISTER_LISTENER("failures", 1, laws::failure_counter);

namespace {

constexpr int ranks = 3;
constexpr std::size_t at_once = 9;
constexpr auto limit = 2s;  // the deadline, for processes that share two processors with those of other drills

// What the ranks of a drill end with, in memory that they share with the test.
class board {
 public:
  board() : said_(static_cast<text*>(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0))) {
    REQUIRE(said_ != MAP_FAILED);
  }
  board(board&& other) : said_(std::exchange(other.said_, nullptr)) {}
  ~board() {
    if (said_ != nullptr) munmap(said_, bytes);
  }
  void put_down(int rank, const char* what) { std::strncpy(said_[rank].data(), what, said_[rank].size() - 1); }
  std::string of(int rank) const { return said_[rank].data(); }

 private:
  using text = std::array<char, 2000>;
  static constexpr std::size_t bytes = ranks * sizeof(text);
  text* said_;
};

struct under_way {
  process_drill drill;
  board ends{};
  std::vector<pid_t> processes{};  // by rank
  std::chrono::steady_clock::time_point begin = std::chrono::steady_clock::now();
};

under_way begin(const process_drill& d) {
  under_way u{.drill = d};
  static int jobs = 0;  // each meets at a file of its own
  const launch job{
      .size = ranks,
      .address = "file:" +
                 (std::filesystem::temp_directory_path() / ("drill." + std::to_string(getpid()) + "." + std::to_string(++jobs))).string()};
  u.processes = laws::fork_all(job, [&](const launch& me) {
    try {
      process_group(me, {.deadline = limit}).run([&](auto& comm) { drills::train(d, comm); });
      return 0;
    } catch (const std::exception& e) {
      u.ends.put_down(me.rank, e.what());
      return 7;
    }
  });
  return u;
}

void check_end(under_way& u) {
  const process_drill& d = u.drill;
  for (int rank = 0; rank < ranks; ++rank) {
    if (rank == d.victim) continue;
    int how = 0;
    REQUIRE(waitpid(u.processes[static_cast<std::size_t>(rank)], &how, 0) > 0);
    const std::string said = u.ends.of(rank);
    CHECK_MESSAGE((WIFEXITED(how) && WEXITSTATUS(how) == 7 && d.is_told(said)), d.text(), ": rank ", rank, " ended with \"", said, "\"");
  }
  const auto took = std::chrono::steady_clock::now() - u.begin;
  CHECK_MESSAGE(took < limit + 20s, d.text(), " took too long");

  const pid_t victim = u.processes[static_cast<std::size_t>(d.victim)];
  if (d.what == "stop") kill(victim, SIGKILL);
  int how = 0;
  REQUIRE(waitpid(victim, &how, 0) == victim);
  if (d.signals()) CHECK_MESSAGE((WIFSIGNALED(how) && WTERMSIG(how) == SIGKILL), d.text(), ": the victim was not struck");
  else CHECK_MESSAGE((WIFEXITED(how) && WEXITSTATUS(how) == 7), d.text(), ": the victim ended well");
}

void perform(const std::vector<process_drill>& table) {
  for (std::size_t first = 0; first < table.size(); first += at_once) {
    std::vector<under_way> some;
    for (std::size_t i = first; i < std::min(table.size(), first + at_once); ++i) some.push_back(begin(table[i]));
    for (under_way& u : some) check_end(u);
  }
  for (const auto& file : std::filesystem::directory_iterator("/dev/shm"))
    CHECK_MESSAGE(file.path().filename().string().find("gradsync") == std::string::npos, file.path(), " is left");
}

}  // namespace

TEST_CASE("an exception on any rank is told to all processes") { perform(drills::drill_table("exception", ranks, 6)); }
TEST_CASE("a process that returns in the middle of an update is named by all others") { perform(drills::drill_table("return", ranks, 6)); }
TEST_CASE("a process that is killed in mid-bucket is named by all others") { perform(drills::drill_table("kill", ranks, 6)); }
TEST_CASE("a process that is stopped in mid-bucket is named by all others at their deadline") {
  perform(drills::drill_table("stop", ranks, 6));
}
