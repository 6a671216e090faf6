// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// Runs laws of transports on processes that share memory: rank 0 is the test itself, the others are forked from it. What fails in them
/// fails the test.
///
///     gradsync::laws::communicator_laws(gradsync::laws::over_forks);
#pragma once

#include <doctest/doctest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <exception>
#include <iostream>
#include <vector>

#include "gradsync/comm/processes.hpp"
#include "tests/comm/meetings.hpp"
#include "tests/laws/told.hpp"

namespace gradsync::laws {

/// Assertions that have failed in this process.
struct failure_counter : doctest::IReporter {
  explicit failure_counter(const doctest::ContextOptions&) {}
  static inline std::atomic<int> failures = 0;  // assertions of any thread

  void report_query(const doctest::QueryData&) override {}
  void test_run_start() override {}
  void test_run_end(const doctest::TestRunStats&) override {}
  void test_case_start(const doctest::TestCaseData&) override {}
  void test_case_reenter(const doctest::TestCaseData&) override {}
  void test_case_end(const doctest::CurrentTestCaseStats&) override {}
  void test_case_exception(const doctest::TestCaseException&) override { ++failures; }
  void subcase_start(const doctest::SubcaseSignature&) override {}
  void subcase_end() override {}
  void log_assert(const doctest::AssertData& a) override { failures += a.m_failed ? 1 : 0; }
  void log_message(const doctest::MessageData&) override {}
  void test_case_skipped(const doctest::TestCaseData&) override {}
};

inline process_communicator* memory_owner = nullptr;
inline aligned_bytes shared_block(std::size_t bytes) { return memory_owner->allocate(bytes); }

/// This process's part: `body(comm)`, with lent memory from its segment.
template <class Body>
void run_rank(const launch& me, const process_group_options& options, Body& body) {
  process_group(me, options).run([&](process_communicator& comm) {
    const block_source before = make_block;
    memory_owner = &comm;
    make_block = shared_block;
    try {
      body(comm);
    } catch (...) {
      make_block = before;
      throw;
    }
    make_block = before;
  });
}

/// Forks a process for each rank from `first` on: `rank_body(launch)` there, whose result is its exit code. Their process numbers, by rank,
/// with 0 for those before.
template <class F>
std::vector<pid_t> fork_from(int first, const launch& job, F&& rank_body) {
  std::fflush(nullptr);
  std::cout.flush();
  std::vector<pid_t> children(static_cast<std::size_t>(first), 0);
  for (int rank = first; rank < job.size; ++rank) {
    const pid_t child = fork();
    if (child == 0) {
      failure_counter::failures = 0;
      launch me = job;
      me.rank = rank;
      const int code = rank_body(me);
      std::cout.flush();
      std::fflush(nullptr);
      _exit(failure_counter::failures > 0 ? 99 : code);
    }
    REQUIRE(child > 0);
    children.push_back(child);
  }
  return children;
}

/// The same for all but rank 0, which the test is itself; and for all.
template <class F>
std::vector<pid_t> fork_ranks(const launch& zero, F&& rank_body) {
  return fork_from(1, zero, rank_body);
}
template <class F>
std::vector<pid_t> fork_all(const launch& job, F&& rank_body) {
  return fork_from(0, job, rank_body);
}

inline launch forked_launch(int size) { return {.rank = 0, .size = size, .address = meetings::free_address()}; }

/// Throws what the first failing rank threw, as far as a process can know that of another.
inline const auto over_forks = [](int size, auto body) {
  const process_group_options options{.deadline = std::chrono::minutes(1)};
  const launch zero = forked_launch(size);
  const std::vector<pid_t> children = fork_ranks(zero, [&](const launch& me) {
    try {
      run_rank(me, options, body);
    } catch (...) {  // rank 0 learns of it too
    }
    return 0;
  });
  std::exception_ptr error;
  try {
    run_rank(zero, options, body);
  } catch (...) {
    error = std::current_exception();
  }
  for (std::size_t rank = 1; rank < children.size(); ++rank) {
    int how = 0;
    REQUIRE(waitpid(children[rank], &how, 0) == children[rank]);
    CHECK_MESSAGE((WIFEXITED(how) && WEXITSTATUS(how) == 0), "something failed on rank ", rank);
  }
  as_thrown([&] {
    if (error) std::rethrow_exception(error);
  });
};

}  // namespace gradsync::laws
