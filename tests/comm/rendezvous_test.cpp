// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

#include "gradsync/comm/rendezvous.hpp"

#include <doctest/doctest.h>

#include <signal.h>
#include <sys/wait.h>

#include <atomic>
#include <cstdlib>

#include "tests/comm/meetings.hpp"

using namespace gradsync;
using namespace std::chrono_literals;
using meetings::free_address;
using meetings::meet;
using meetings::member;

namespace {

using strings = std::vector<std::string>;
const auto nothing = [](rendezvous&) {};

// Everything that ranks tell each other arrives, whole and in order.
void tell(rendezvous& all) {
  for (int repeat = 0; repeat < 3; ++repeat) {
    strings expected;
    for (int r = 0; r < all.size(); ++r) expected.push_back(std::string(static_cast<std::size_t>(r + repeat), '\0') + std::to_string(r));
    CHECK(all.all_gather(expected[static_cast<std::size_t>(all.rank())]) == expected);
    for (int root = 0; root < all.size(); ++root)
      CHECK(all.broadcast("from " + std::to_string(all.rank()), root) == "from " + std::to_string(root));
    const std::string largest(rendezvous::most_bytes, static_cast<char>('a' + all.rank()));
    CHECK(all.all_gather(largest).back() == std::string(rendezvous::most_bytes, static_cast<char>('a' + all.size() - 1)));
    all.barrier();
  }
}

std::string new_folder() {
  char name[] = "/tmp/gradsync_rendezvous_test_XXXXXX";
  REQUIRE(mkdtemp(name) != nullptr);
  return name;
}

// A system without /etc/hosts, such as debootstrap makes, may know no name at all.
bool knows(const char* host) {
  std::string why;
  return !detail::resolve({host, "0"}, 0, why).empty();
}

bool has_ipv6() {
  std::string why;
  const auto at = detail::resolve({"::1", "0"}, AI_NUMERICHOST, why);
  return !at.empty() && detail::listen_at(at[0]);
}

}  // namespace

TEST_CASE("processes tell each other small strings, over IPv4, IPv6, a host name and a file") {
  const std::string folder = new_folder();
  for (const int size : {1, 2, 3, 5, 9}) {
    std::vector<std::string> addresses = {free_address(), "file:" + folder + "/meet"};
    if (knows("localhost")) addresses.push_back(free_address("localhost"));
    else MESSAGE("this system does not know localhost: no host name was tried");
    if (has_ipv6()) addresses.push_back(free_address("[::1]"));
    for (const std::string& address : addresses) {
      CAPTURE(address);
      CHECK(meet({.size = size, .address = address, .job = "a job/7"}, tell) == strings(static_cast<std::size_t>(size)));
    }
  }
  CHECK(rmdir(folder.c_str()) == 0);  // nothing was left there
}

TEST_CASE("whoever comes first waits for the others") {
  const std::string folder = new_folder();
  for (const std::string& address : {free_address(), "file:" + folder + "/meet"})
    for (int last = 0; last < 3; ++last) {
      const meetings::group g{.size = 3, .address = address};
      std::vector<std::thread> threads;
      std::atomic<int> through{0};
      for (int turn = 1; turn <= 3; ++turn) {
        const int rank = (last + turn) % 3;
        if (turn == 3) CHECK(through == 0);
        threads.emplace_back([&, rank] {
          rendezvous here(member(g, rank), 60s);
          ++through;
          tell(here);
        });
        std::this_thread::sleep_for(60ms);
      }
      for (std::thread& t : threads) t.join();
      CHECK(through == 3);
    }
  CHECK(rmdir(folder.c_str()) == 0);
}

TEST_CASE("one process alone needs no address") {
  rendezvous alone(launch{});
  CHECK(alone.all_gather("x") == strings{"x"});
  CHECK(alone.broadcast("y") == "y");
  CHECK_THROWS_WITH_AS(alone.broadcast("y", 1), "gradsync[rank 0]: broadcast from rank 1 of 1", usage_error);
}

TEST_CASE("who does not come is named, to all who have, at the deadline and not before") {
  const auto begin = std::chrono::steady_clock::now();
  const std::string address = free_address();
  const strings errors = meet({.size = 5, .address = address, .limit = 1s}, nothing, {1, 3});
  CHECK(std::chrono::steady_clock::now() - begin >= 1s);
  for (const int rank : {0, 2, 4})
    CHECK(errors[static_cast<std::size_t>(rank)] ==
          "gradsync[rank " + std::to_string(rank) + "]: ranks 1 and 3 did not come to " + address + " before the deadline of 1000 ms");
}

TEST_CASE("without rank 0 the others say where they looked for it") {
  const std::string address = free_address(), folder = new_folder();
  CHECK(meet({.size = 2, .address = address, .limit = 100ms}, nothing, {0})[1] ==
        "gradsync[rank 1]: rank 0 was not found at " + address + " before the deadline of 100 ms: " + address + ": Connection refused");
  CHECK(meet({.size = 2, .address = "file:" + folder + "/meet", .job = "j", .limit = 100ms}, nothing, {0})[1] ==
        "gradsync[rank 1]: rank 0 was not found at file:" + folder +
            "/meet before the deadline of 100 ms: rank 0 has not written the file " + folder + "/meet.j");
  const std::string unknown = meet({.size = 2, .address = "gradsync.invalid:1", .limit = 100ms}, nothing, {0})[1];
  CHECK_MESSAGE(unknown.find("the host name gradsync.invalid is not known: ") != unknown.npos, unknown);
  CHECK(rmdir(folder.c_str()) == 0);
}

TEST_CASE("what listens there but does not answer is named") {
  std::string why;
  const std::string address = free_address();
  const detail::descriptor deaf = detail::listen_at(detail::resolve(detail::split_address(address), 0, why)[0]);
  REQUIRE(deaf);
  CHECK(meet({.size = 2, .address = address, .limit = 200ms}, nothing, {0})[1] ==
        "gradsync[rank 1]: rank 0 was not found at " + address + " before the deadline of 200 ms: " + address + " does not answer");
  CHECK(meet({.size = 2, .address = address, .limit = 200ms}, nothing, {1})[0] ==
        "gradsync[rank 0]: rank 0 cannot listen at " + address + ": Address already in use; choose another port");
}

TEST_CASE("where rank 0 cannot listen, and what is no address, is one clear line") {
  const auto error_at = [](const std::string& address, int absent) {
    return meet({.size = 2, .address = address, .limit = 200ms}, nothing, {absent})[static_cast<std::size_t>(1 - absent)];
  };
  CHECK(error_at("203.0.113.1:4000", 1) == "gradsync[rank 0]: 203.0.113.1:4000 is no address of this host, on which rank 0 is");
  for (const char* text : {"node0", "node0:", ":1", "node0:x", "node0:70000", "::1:4000", "node0:-1"})
    for (const int absent : {0, 1})
      CHECK(error_at(text, absent) == "gradsync[rank " + std::to_string(1 - absent) + "]: \"" + text +
                                          "\" is no address; write host:port, with an IPv6 address as [::1]:29500");
  CHECK(error_at("", 1) ==
        "gradsync[rank 0]: nobody has said where the 2 processes meet; set MASTER_ADDR and MASTER_PORT, or GRADSYNC_ADDRESS");
  CHECK(error_at("file:/nowhere/at/all", 1) == "gradsync[rank 0]: the file /nowhere/at/all cannot be written: No such file or directory");
}

TEST_CASE("two jobs at one address do not meet") {
  const std::string address = free_address();
  const meetings::group first{.size = 2, .address = address, .job = "first"}, second{.size = 2, .address = address, .job = "second"};
  std::atomic<int> met{0};
  std::vector<std::thread> threads;
  const auto come = [&](const meetings::group& g, int rank) {
    threads.emplace_back([&met, g, rank] {
      rendezvous here(member(g, rank), 60s);
      CHECK(here.all_gather(g.job) == strings{g.job, g.job});
      ++met;
    });
  };
  come(first, 0);
  meetings::await_listener(address);
  come(second, 1);  // is refused, and tries again
  come(second, 0);  // finds the port in use, and tries again
  std::this_thread::sleep_for(50ms);
  CHECK(met == 0);
  come(first, 1);
  for (std::thread& t : threads) t.join();
  CHECK(met == 4);
}

TEST_CASE("a job that finds another one says so") {
  const meetings::group first{.size = 2, .address = free_address(), .job = "first"};
  std::thread other([&] { CHECK(meet(first, nothing, {1}) == strings{"", ""}); });
  meetings::await_listener(first.address);
  CHECK(meet({.size = 2, .address = first.address, .limit = 200ms}, nothing, {0})[1] ==
        "gradsync[rank 1]: rank 0 was not found at " + first.address +
            " before the deadline of 200 ms: job first meets there, this is a job without a name");
  rendezvous one(member(first, 1), 60s);
  other.join();
}

TEST_CASE("processes that were started as jobs of different sizes are told so") {
  const std::string address = free_address();
  std::string error0, error2;
  const auto come = [&](int rank, int size, std::string& error) {
    return std::thread([=, &error] {
      try {
        rendezvous here({.rank = rank, .size = size, .address = address}, 60s);
      } catch (const mismatch_error& e) {
        error = e.what();
      }
    });
  };
  std::thread zero = come(0, 4, error0), two = come(2, 3, error2);
  zero.join();
  two.join();
  CHECK(error0 == "gradsync[rank 0]: rank 2 was started as one of 3 processes, rank 0 as one of 4");
  CHECK(error2 == "gradsync[rank 2]: rank 2 was started as one of 3 processes, rank 0 as one of 4");
}

TEST_CASE("a rank that is there already cannot come again") {
  const std::string address = free_address();
  const meetings::group g{.size = 3, .address = address};
  std::vector<std::thread> threads;
  std::atomic<int> refused{0};
  for (const int rank : {0, 1, 1})
    threads.emplace_back([&, rank] {
      try {
        rendezvous here(member(g, rank), 60s);
        tell(here);
      } catch (const mismatch_error& e) {
        CHECK(e.what() == "gradsync[rank 1]: another process has come to " + address +
                              " as rank 1; give each process a rank of its own, and each job a name (GRADSYNC_JOB)");
        ++refused;
      }
    });
  while (refused == 0) std::this_thread::sleep_for(1ms);
  rendezvous last(member(g, 2), 60s);
  tell(last);
  for (std::thread& t : threads) t.join();
  CHECK(refused == 1);
}

TEST_CASE("who leaves is named, and who calls too late or something else") {
  const std::string address = free_address();
  strings errors = meet({.size = 4, .address = address, .limit = 10s}, [](rendezvous& all) {
    if (all.rank() != 2) all.all_gather("x");
  });
  CHECK(errors == strings{"gradsync[rank 0]: rank 2 has gone from the rendezvous at " + address,
                          "gradsync[rank 1]: rank 2 has gone from the rendezvous at " + address, "",
                          "gradsync[rank 3]: rank 2 has gone from the rendezvous at " + address});
  std::atomic<int> late{0};
  errors = meet({.size = 3, .address = address, .limit = 1s}, [&](rendezvous& all) {
    while (all.rank() == 1 && late < 2) std::this_thread::sleep_for(1ms);
    try {
      all.barrier();
    } catch (const timeout_error&) {
      ++late;
      throw;
    }
  });
  CHECK(errors[0] == "gradsync[rank 0]: rank 1 did not call all_gather before the deadline of 1000 ms");
  CHECK(errors[2] == "gradsync[rank 2]: rank 1 did not call all_gather before the deadline of 1000 ms");
  errors = meet({.size = 3, .address = address}, [](rendezvous& all) { all.rank() == 1 ? all.broadcast("x", 2) : all.all_gather("x")[0]; });
  for (int rank = 0; rank < 3; ++rank)
    CHECK(errors[static_cast<std::size_t>(rank)] ==
          "gradsync[rank " + std::to_string(rank) +
              "]: rank 1 calls broadcast from rank 2, rank 0 all_gather; make the same calls in the "
              "same order on every rank");
  errors = meet({.size = 3, .address = address, .limit = 10s}, [](rendezvous& all) {
    if (all.rank() != 0) all.all_gather("x");
  });
  CHECK(errors[0] == "");
  CHECK(errors[1] == "gradsync[rank 1]: rank 0 has gone from the rendezvous at " + address);
}

TEST_CASE("a rendezvous that has failed stays so, and one that is misused does not fail") {
  meet({.size = 2, .address = free_address(), .limit = 10s}, [](rendezvous& all) {
    const std::string rank = "gradsync[rank " + std::to_string(all.rank()) + "]: ";
    CHECK_THROWS_WITH_AS(all.all_gather(std::string(4097, 'x')),
                         (rank + "a rendezvous is for strings of up to 4096 bytes, not 4097").c_str(), usage_error);
    tell(all);
    if (all.rank() == 1) return;
    CHECK_THROWS_AS(all.barrier(), transport_error);
    CHECK_THROWS_WITH_AS(all.barrier(), (rank + "the rendezvous has failed before").c_str(), transport_error);
  });
  launch named{.rank = 0, .size = 2, .job = std::string(513, 'j'), .address = free_address()};
  CHECK_THROWS_WITH_AS(rendezvous{named}, "gradsync[rank 0]: the job's name has more than 512 bytes", usage_error);
}

TEST_CASE("a file that was left over is refused, named and left alone") {
  const std::string folder = new_folder(), name = folder + "/meet.j";
  const meetings::group g{.size = 2, .address = "file:" + folder + "/meet", .job = "j", .limit = 300ms};
  // What listens where the old file says is another job's rank 0 now, or nobody.
  const std::string taken = free_address();
  {
    detail::address_file old(folder + "/meet", "j");
    old.write({"0123456789abcdef", {taken}});
    const strings errors = meet(g, nothing);
    CHECK(errors[0] ==
          "gradsync[rank 0]: the file " + name + " is there already: remove it if it was left over, or give each job a name of its own");
    CHECK(errors[1] ==
          "gradsync[rank 1]: rank 0 was not found at " + g.address + " before the deadline of 300 ms: " + taken + ": Connection refused");
    CHECK(old.read().has_value());
    const meetings::group other_run{.size = 2, .address = taken, .job = "j"};
    std::thread other([&] { CHECK(meet(other_run, nothing, {1}) == strings{"", ""}); });
    meetings::await_listener(taken);
    CHECK(meet(g, nothing, {0})[1] == "gradsync[rank 1]: rank 0 was not found at " + g.address +
                                          " before the deadline of 300 ms: another run of job j meets there, this is job j");
    rendezvous one(member(other_run, 1), 60s);
    other.join();
  }
  CHECK(rmdir(folder.c_str()) == 0);
}

TEST_CASE("processes meet, and one that is killed is named") {
  const meetings::group g{.size = 4, .address = free_address(), .limit = 20s};
  std::vector<pid_t> children;
  for (int rank = 1; rank < g.size; ++rank) {
    const pid_t child = fork();
    if (child != 0) {
      children.push_back(child);
      continue;
    }
    int code = 1;
    try {
      rendezvous here(member(g, rank), g.limit);
      const strings all = here.all_gather("process " + std::to_string(rank));
      if (rank == 2) raise(SIGKILL);
      here.barrier();
    } catch (const transport_error& e) {
      code = e.message() == "rank 2 has gone from the rendezvous at " + g.address ? 7 : 2;
    } catch (...) {
    }
    _exit(code);
  }
  rendezvous here(member(g, 0), g.limit);
  CHECK(here.all_gather("process 0") == strings{"process 0", "process 1", "process 2", "process 3"});
  CHECK_THROWS_WITH_AS(here.barrier(), ("gradsync[rank 0]: rank 2 has gone from the rendezvous at " + g.address).c_str(), transport_error);
  for (std::size_t i = 0; i < children.size(); ++i) {
    int how = 0;
    REQUIRE(waitpid(children[i], &how, 0) == children[i]);
    if (i == 1) CHECK((WIFSIGNALED(how) && WTERMSIG(how) == SIGKILL));
    else CHECK((WIFEXITED(how) && WEXITSTATUS(how) == 7));
  }
}
