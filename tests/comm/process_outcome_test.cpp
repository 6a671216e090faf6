// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

#include "gradsync/comm/process_outcome.hpp"

#include <doctest/doctest.h>

#include <signal.h>

#include "gradsync/synchronizer.hpp"
#include "tests/laws/over_forks.hpp"
#include "tests/sync/models.hpp"

using namespace gradsync;
using namespace std::chrono_literals;
using laws::over_forks;

REGISTER_LISTENER("failures", 1, laws::failure_counter);

namespace {

enum class end_of_rank { before_all, before_run, in_update };

// What the others are told when rank 2 of 4 raises a signal.
std::string told_of(int signal, end_of_rank when, process_communicator& comm) {
  try {
    if (when == end_of_rank::before_all && comm.rank() == 2) raise(signal);
    for (int repeat = 0;; ++repeat) {
      test::layers net = test::make_layers({1000, 77});
      for (test::param& p : net.layer) p.grad = p.value;
      synchronizer sync{net, comm, {.bucket_bytes = 1000}};
      if (when == end_of_rank::before_run && comm.rank() == 2 && repeat == 1) raise(signal);
      sync.mark_ready(net.layer[1]);
      if (when == end_of_rank::in_update && comm.rank() == 2 && repeat == 1) raise(signal);
      sync.mark_ready(net.layer[0]);
      sync.finish();
    }
  } catch (const error& e) {
    return e.what();
  }
}

template <class F>
void expect_named(int signal, end_of_rank when, std::chrono::nanoseconds limit, F&& as_told) {
  const launch zero = laws::forked_launch(4);
  const process_group_options options{.deadline = limit};
  const auto body = [&](process_communicator& comm) {
    const std::string told = told_of(signal, when, comm);
    CHECK_MESSAGE(as_told(told), told);
  };
  const std::vector<pid_t> children = laws::fork_ranks(zero, [&](const launch& me) {
    try {
      process_group(me, options).run(body);
    } catch (const error&) {
      return 7;
    }
    return 0;
  });
  const auto begin = std::chrono::steady_clock::now();
  CHECK_THROWS_AS(process_group(zero, options).run(body), error);
  CHECK(std::chrono::steady_clock::now() - begin < limit + 30s);
  kill(children[2], SIGKILL);  // where it was only stopped
  for (std::size_t rank = 1; rank < children.size(); ++rank) {
    int how = 0;
    REQUIRE(waitpid(children[rank], &how, 0) == children[rank]);
    if (rank == 2) CHECK((WIFSIGNALED(how) && WTERMSIG(how) == SIGKILL));
    else CHECK_MESSAGE((WIFEXITED(how) && WEXITSTATUS(how) == 7), "rank ", rank, ": ", how);
  }
}

}  // namespace

TEST_CASE("processes obey the laws of failure") { laws::failure_laws(over_forks, {.one_in = 5}); }

TEST_CASE("a process that is killed is named by all others, wherever it was") {
  for (const end_of_rank when : {end_of_rank::before_all, end_of_rank::before_run, end_of_rank::in_update})
    expect_named(SIGKILL, when, 60s, [](const std::string& told) { return told.find("rank 2 has died (process ") != told.npos; });
}

TEST_CASE("a process that is stopped is late, and named by all others") {
  for (const end_of_rank when : {end_of_rank::before_all, end_of_rank::before_run, end_of_rank::in_update})
    expect_named(SIGSTOP, when, 1s,
                 [](const std::string& told) { return told.find("rank 2 did not come before the deadline of 1000 ms") != told.npos; });
}
