// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0
#include "gradsync/comm/nccl_watchdog.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <optional>
#include <stdexcept>

#include "gradsync/cuda/stream.hpp"
#include "tests/cuda_standin/nccl_standin.hpp"
#include "tests/cuda_standin/standin.hpp"

using namespace gradsync;
using namespace gradsync::detail;
using namespace std::chrono_literals;

namespace {

struct watched_rank {
  explicit watched_rank(const nccl_options& options) : outcome(std::make_shared<failure>(2, options.clock)) {
    standin::reset();
    standin::seed(1, standin::order::first_in, standin::pace::device_ahead);
    standin::nccl::set({});
    dog.emplace(0, 1, options, outcome);
    stream.emplace(0);
  }
  std::shared_ptr<failure> outcome;
  std::optional<nccl_watchdog> dog;
  std::optional<cuda_stream> stream;
};

}  // namespace

TEST_CASE("work that ends in time is forgotten") {
  watched_rank r({.deadline = 60s});
  for (int i = 0; i < 100; ++i) r.dog->watch(r.stream->native(), {"work", static_cast<std::uint64_t>(i)});
  CHECK(r.dog->quiesce());
  r.dog->await(r.stream->native());
  r.dog->check();
  CHECK_FALSE(r.outcome->failed());
}

TEST_CASE("a call that is late fails the rank, which learns what it was") {
  watched_rank r({.deadline = 50ms});
  {
    const nccl_watchdog::blocking_call waiting(*r.dog, {"ncclCommSplit", 3});
    for (int i = 0; i < 1000 && !r.outcome->failed(); ++i) std::this_thread::sleep_for(2ms);
  }
  CHECK_THROWS_WITH_AS(r.dog->check(), doctest::Contains("before the deadline of 50 ms (ncclCommSplit, collective 3 of this communicator)"),
                       timeout_error);
  CHECK(r.dog->quiesce());
}

TEST_CASE("the deadline is read from the clock that was given, not from the wall") {
  static std::atomic<std::int64_t> seconds{1000};
  watched_rank r(
      {.deadline = 100s, .clock = [] { return std::chrono::steady_clock::time_point{} + std::chrono::seconds(seconds.load()); }});
  {
    const nccl_watchdog::blocking_call waiting(*r.dog, {"ncclCommSplit", 0});
    seconds += 99;
    std::this_thread::sleep_for(50ms);
    CHECK_FALSE(r.outcome->failed());
    seconds += 1;
    for (int i = 0; i < 1000 && !r.outcome->failed(); ++i) std::this_thread::sleep_for(2ms);
  }
  CHECK_THROWS_AS(r.dog->check(), timeout_error);
}

TEST_CASE("a communicator is ended when any rank fails, and only once") {
  watched_rank r({.deadline = 60s});
  ncclUniqueId id;
  ncclComm_t comm = nullptr, kept = nullptr;
  check(ncclGetUniqueId(&id), "ncclGetUniqueId");
  check(ncclCommInitRank(&comm, 1, id, 0), "ncclCommInitRank");
  check(ncclGetUniqueId(&id), "ncclGetUniqueId");
  check(ncclCommInitRank(&kept, 1, id, 0), "ncclCommInitRank");
  r.dog->guard(comm);
  r.dog->guard(kept);
  CHECK(r.dog->state_of(comm) == nccl_watchdog::state::alive);
  CHECK(r.dog->release(kept) == nccl_watchdog::state::alive);  // is no longer the watchdog's
  r.outcome->fail(0, std::make_exception_ptr(std::runtime_error("disk full")));
  CHECK(r.dog->quiesce());
  CHECK(r.dog->state_of(comm) == nccl_watchdog::state::ended);
  CHECK(r.dog->release(comm) == nccl_watchdog::state::ended);
  CHECK(standin::nccl::alive() == 1);
  CHECK_THROWS_WITH_AS(r.dog->check(), doctest::Contains("rank 0 failed: disk full"), transport_error);
  check(ncclCommAbort(kept), "ncclCommAbort");
  CHECK(standin::nccl::faults().empty());
}

TEST_CASE("who asks for a communicator that is just being ended gets it when that is done") {
  watched_rank r({.deadline = 60s});
  standin::nccl::set({.ending = 100ms});
  ncclUniqueId id;
  ncclComm_t comm = nullptr;
  check(ncclGetUniqueId(&id), "ncclGetUniqueId");
  check(ncclCommInitRank(&comm, 1, id, 0), "ncclCommInitRank");
  r.dog->guard(comm);
  r.outcome->fail(0, std::make_exception_ptr(std::runtime_error("disk full")));
  while (r.dog->state_of(comm) == nccl_watchdog::state::alive) std::this_thread::yield();
  CHECK(r.dog->release(comm) == nccl_watchdog::state::ended);
  CHECK(standin::nccl::alive() == 0);
}
