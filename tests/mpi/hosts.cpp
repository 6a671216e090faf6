// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

// Two hosts, which tests/mpi/hosts.sh has made, and processes on them (tests/mpi/on_host.cpp): MPI over TCP between them, and the
// rendezvous of those that have no MPI.
#include <doctest/doctest.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "tests/mpi/launcher.hpp"

using mpi_launcher::ending;
using mpi_launcher::from_environment;

namespace {

namespace fs = std::filesystem;

// Without hosts there is nothing to be seen here. GRADSYNC_NETNS=1 says that there must be some.
bool has_hosts() {
  const std::string why = from_environment("GRADSYNC_NO_HOSTS");
  if (why.empty()) return true;
  REQUIRE_MESSAGE(from_environment("GRADSYNC_NETNS") != "1", why);
  MESSAGE("skipped: " << why);
  return false;
}

std::string on(int host, const std::string& command) {
  return from_environment("GRADSYNC_ON") + " host" + std::to_string(host) + " '" + command + "'";
}

// Two processes a host, over TCP between hosts; those of one host as MPI likes it. UCX, which MPICH has between hosts, would find that they
// are one machine.
std::string mpirun(const std::string& arguments) {
  const std::string launcher = from_environment("GRADSYNC_LAUNCHER"), agent = from_environment("GRADSYNC_ON");
  const std::string how =
      mpi_launcher::is_open_mpi()
          ? " --mca plm rsh --mca plm_rsh_agent " + agent +
                " --mca pml ob1 --mca btl tcp,self,vader --mca btl_tcp_if_include eth0 --mca oob_tcp_if_include eth0"
                " --host host0:2,host1:2"
          : " -launcher ssh -launcher-exec " + agent + " -hosts host0:2,host1:2 -genv UCX_NET_DEVICES eth0 -genv UCX_TLS tcp,self";
  return on(0, "exec timeout -k 1 60 " + launcher + how + " -np 4 " + from_environment("GRADSYNC_PROGRAM") + " " + arguments);
}

struct temporary_folder {
  temporary_folder() { fs::create_directories(path); }
  ~temporary_folder() { fs::remove_all(path); }
  fs::path path = fs::temp_directory_path() / ("hosts." + std::to_string(getpid()));
};

template <class F>
bool within(double seconds, F&& f) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (!f())
    if (std::chrono::steady_clock::now() > end) return false;
    else std::this_thread::sleep_for(std::chrono::milliseconds(20));
  return true;
}

// The process of a rank that trains, and its first word afterwards.
struct trained {
  pid_t process = 0;
  std::string said{};
};
trained of_rank(const fs::path& folder, int rank) {
  std::ifstream file(folder / std::to_string(rank));
  trained t;
  file >> t.process >> std::ws;
  std::getline(file, t.said);
  return t;
}

// `variables` go before the program, of each process; those of the first one's host first.
std::vector<ending> meet(const std::vector<std::pair<int, std::string>>& processes, const std::string& what = "meet") {
  std::vector<ending> ends(processes.size());
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < processes.size(); ++i)
    threads.emplace_back([&, i] {
      ends[i] = mpi_launcher::run(on(processes[i].first, processes[i].second + " " + from_environment("GRADSYNC_PROGRAM") + " " + what));
    });
  for (std::thread& one : threads) one.join();
  return ends;
}

std::string member(int rank, int size, const std::string& address, const std::string& job = "a") {
  return "GRADSYNC_RANK=" + std::to_string(rank) + " GRADSYNC_SIZE=" + std::to_string(size) + " GRADSYNC_JOB=" + job +
         " GRADSYNC_ADDRESS=" + address;
}

}  // namespace

TEST_CASE("between hosts, two levels are faster than flat strategies") {
  if (!has_hosts()) return;
  const ending end = mpi_launcher::run(mpirun("measure"));
  INFO(end.said);
  // MPICH 4.0 over UCX and TCP may wait for ever in MPI_Finalize, which gradsync ends at the deadline.
  const bool stuck =
      !mpi_launcher::is_open_mpi() && end.said.find("MPI_Finalize has not returned before the deadline") != std::string::npos;
  REQUIRE((end.status == 0 || stuck));
  REQUIRE(end.said.find("4 ranks on 2 hosts, 2 on each\nhost 0: ranks 0, 1\nhost 1: ranks 2, 3\n") != std::string::npos);
  MESSAGE(end.said);
  std::istringstream last_line(end.said.substr(end.said.find("\n   1048576")));
  double bytes = 0, over_hosts = 0, native = 0;
  last_line >> bytes >> over_hosts >> native;
  CHECK(over_hosts < 0.8 * native);  // half the bytes cross
}

TEST_CASE("processes without MPI meet by name, by IPv4 and by IPv6") {
  if (!has_hosts()) return;
  for (const char* address : {"host0:29501", "10.77.0.1:29502", "[fd77::1]:29503"}) {
    const auto ends = meet({{0, member(0, 3, address)}, {1, member(1, 3, address)}, {0, member(2, 3, address)}});
    for (const ending& end : ends) CHECK_MESSAGE(end.status == 0, address, ": ", end.said);
    CHECK(ends[0].said == "job a rank 0: here there here\n");
    CHECK(ends[1].said == "job a rank 1: there here there\n");
  }
}

TEST_CASE("two jobs at one address are told apart") {
  if (!has_hosts()) return;
  const std::string at = "host0:29504";
  const auto ends = meet({{0, member(0, 2, at, "a")},
                          {1, member(1, 2, at, "b")},
                          {1, "sleep 1; " + member(1, 2, at, "a")},
                          {0, "sleep 3; " + member(0, 2, at, "b")}});
  CHECK(ends[0].said == "job a rank 0: here there\n");
  CHECK(ends[1].said == "job b rank 1: there here\n");
  CHECK(ends[2].said == "job a rank 1: there here\n");
  CHECK(ends[3].said == "job b rank 0: here there\n");
}

TEST_CASE("processes that cannot share memory say what to take instead") {
  if (!has_hosts()) return;
  const auto ends = meet({{0, member(0, 2, "host0:29505")}, {1, member(1, 2, "host0:29505")}}, "share");
  for (const ending& end : ends) {
    CHECK(end.status == 1);
    CHECK_MESSAGE(end.said.find("is on another host; a process_group has one, groups over hosts need NCCL or MPI") != std::string::npos,
                  end.said);
  }
}

// Last: host1 is gone then.
TEST_CASE("a link that is cut in mid-step ends in one error on each rank") {
  if (!has_hosts()) return;
  const temporary_folder folder;
  ending end;
  std::thread job([&] { end = mpi_launcher::run(mpirun("train " + folder.path.string())); });
  const bool began = within(30, [&] { return fs::exists(folder.path / "began"); });
  CHECK(mpi_launcher::run(from_environment("GRADSYNC_CUT") + " host1").status == 0);
  const auto said = [&](int rank) { return of_rank(folder.path, rank).said; };
  const bool all_said = within(2 + 1.5 + 5, [&] { return !said(0).empty() && !said(1).empty() && !said(2).empty() && !said(3).empty(); });
  const auto ended = [&] {
    for (int rank = 0; rank < 4; ++rank)
      if (const pid_t process = of_rank(folder.path, rank).process; process > 0 && kill(process, 0) == 0) return false;
    return true;
  };
  const bool all_ended = within(20, ended);
  CHECK(mpi_launcher::run(from_environment("GRADSYNC_CLEAR")).status == 0);  // Open MPI's launcher waits for host1
  job.join();
  INFO(end.said);
  REQUIRE(began);
  CHECK(all_said);
  CHECK(all_ended);
  CHECK(end.status != 0);
  for (int rank = 0; rank < 4; ++rank) {
    const std::string one = said(rank);
    INFO("rank ", rank, ": ", one);
    CHECK(one.starts_with("gradsync[rank " + std::to_string(rank) + "] step "));
    CHECK((one.find(" did not come before the deadline of 2000 ms") != one.npos || one.find(": MPI_") != one.npos));
  }
}
