// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0
#include "gradsync/comm/faulty.hpp"

#include <doctest/doctest.h>

#include <set>
#include <string>
#include <vector>

#include "gradsync/comm/threads.hpp"
#include "gradsync/synchronizer.hpp"
#include "tests/laws/transport_laws.hpp"

using namespace gradsync;
using namespace std::chrono_literals;

namespace {

using faulty_threads = faulty<thread_communicator>;
using faulty_thread_channel = decltype(std::declval<faulty_threads&>().open(1));

// A transport that does not tell whether it has failed.
struct silent {
  static constexpr memory_space space = memory_space::host;
  int rank() const { return 0; }
  int size() const { return 1; }
  thread_channel open(std::size_t);
  deadline limit() const { return {}; }
  void fail(std::exception_ptr) {}
  void abandon(std::exception_ptr) {}
  int all_reduce(int value, reduce_op) { return value; }
  int broadcast(int value, int) { return value; }
  void barrier() {}
  aligned_bytes allocate(std::size_t);
  host_stream::handle compute_stream() const { return {}; }
};

const auto run_faulty = [](int size, auto body) {
  thread_group(size).run([&](auto& own) {
    faulty comm{own};
    body(comm);
    CHECK_FALSE(comm.struck());
  });
};

std::atomic<int> seconds_passed{0};
std::chrono::steady_clock::time_point test_clock() {
  return std::chrono::steady_clock::time_point{} + std::chrono::seconds(seconds_passed.load());
}

// Some collectives in a channel of three ranks, each a mean of 0, 1 and 2, driven by waiting. `steps` makes this rank's program.
template <class Steps>
void means(faulty_threads& comm, int collectives, Steps&& steps) {
  const program p = steps(comm.rank(), comm.size());
  auto channel = comm.open(1);
  for (int i = 0; i < collectives; ++i) {
    std::vector<float> values(10, static_cast<float>(comm.rank()));
    const extent all{reinterpret_cast<std::byte*>(values.data()), 0, values.size()};
    laws::lending(comm, channel, [&] {
      cursor at{.place = channel.post(p, {.buffer = {dtype::float32, std::span(&all, 1)}, .weight = 1})};
      while (!run(p, channel, at, comm.limit())) std::this_thread::yield();
      while (!channel.drain(p, at.place, comm.limit())) std::this_thread::yield();
    });
    for (float x : values) CHECK(x == 1);
  }
}
const auto ring_steps = [](int rank, int size) { return compile(ring{}, rank, size); };
const auto native_steps = [](int rank, int size) { return compile(native{}, rank, size); };

// What `run` throws where rank `plan.rank` of three has the fault, and what each rank is told.
struct outcome {
  std::string thrown;
  std::vector<std::string> told = std::vector<std::string>(3);
};
template <class Body>
outcome suffer(const fault_plan& plan, Body&& body) {
  outcome all;
  try {
    thread_group(3, {.deadline = 10s, .clock = test_clock}).run([&](auto& own) {
      faulty comm{own, plan};
      try {
        body(comm);
      } catch (const std::exception& e) {
        all.told[static_cast<std::size_t>(own.rank())] = e.what();
        throw;
      }
    });
  } catch (const std::exception& e) {
    all.thrown = e.what();
  }
  return all;
}

}  // namespace

static_assert(transport<faulty_threads> && watched_transport<thread_communicator> && watched_transport<faulty_threads>);
static_assert(transport<silent> && !watched_transport<silent>);
static_assert(fused_channel<faulty_thread_channel>);
static_assert(faulty_threads::peer_addressable);

TEST_CASE("without a fault it is the transport within, and obeys its laws") {
  laws::communicator_laws(run_faulty, 3);
  laws::channel_laws(run_faulty);
  laws::mean_laws(run_faulty, {1, 2, 3});
  laws::failure_laws(run_faulty);
}

TEST_CASE("a rank is killed at the planned round of the planned collective, and nobody else is") {
  const auto killed = [](const fault_plan& plan, auto steps) {
    const outcome all = suffer(plan, [&](auto& comm) { means(comm, 4, steps); });  // one more, in which it is missed
    const std::string rank = std::to_string(plan.rank), what = "gradsync[rank " + rank + "]: killed in collective " +
                                                               std::to_string(plan.collective) + ", round " + std::to_string(plan.round);
    CHECK(all.thrown == what);
    for (int other = 0; other < 3; ++other)
      CHECK(all.told[static_cast<std::size_t>(other)] ==
            (other == plan.rank ? what : "gradsync[rank " + std::to_string(other) + "]: rank " + rank + " failed: " + what));
  };
  for (int rank = 0; rank < 3; ++rank)
    for (std::uint64_t collective : {0u, 1u, 2u}) {
      for (int round = fault_plan::posting; round < 4; ++round) killed({fault::kill, rank, collective, round}, ring_steps);
      for (int round : {fault_plan::posting, 0}) killed({fault::kill, rank, collective, round}, native_steps);
    }
  killed({fault::kill, 1, 1, 1}, native_steps);
}

TEST_CASE("a plan that never comes true changes nothing") {
  for (const fault_plan& plan : {fault_plan{fault::kill, 1, 3, 0}, fault_plan{fault::kill, 7, 0, 0}, fault_plan{fault::drop, 1, 2, 5}})
    CHECK(suffer(plan, [&](auto& comm) {
            means(comm, 3, ring_steps);
            CHECK_FALSE(comm.struck());
          }).thrown.empty());
}

TEST_CASE("own all_reduce, broadcast and barrier count as collectives of round 0") {
  for (std::uint64_t collective : {0u, 1u, 2u, 3u}) {
    const outcome all = suffer({fault::kill, 2, collective, 0}, [&](auto& comm) {
      comm.all_reduce(1);
      std::vector<int> values(3, comm.rank());
      comm.broadcast(std::span<int>(values), 1);
      CHECK(values[2] == 1);
      comm.barrier();
      comm.broadcast(5);
    });
    CHECK(all.thrown == "gradsync[rank 2]: killed in collective " + std::to_string(collective) + ", round 0");
  }
}

TEST_CASE("a delay is over when the group's clock says so, and changes nothing else") {
  for (int round = fault_plan::posting; round <= 4; ++round) {
    const outcome all = suffer({fault::delay, 1, 1, round, 9s}, [&](auto& comm) {
      std::thread clock;
      if (comm.rank() == 1)
        clock = std::thread([&] {
          while (!comm.held()) std::this_thread::yield();
          seconds_passed += 9;
        });
      means(comm, 3, ring_steps);
      if (comm.rank() == 1) clock.join();
      CHECK(comm.struck() == (comm.rank() == 1));
      CHECK_FALSE(comm.held());
    });
    CHECK_MESSAGE(all.thrown.empty(), all.thrown);
  }
}

TEST_CASE("a frozen rank goes on when it is released") {
  for (int round = fault_plan::posting; round <= 4; ++round)
    CHECK(suffer({fault::freeze, 0, 1, round}, [&](auto& comm) {
            std::thread friendly;
            if (comm.rank() == 0)
              friendly = std::thread([&] {
                while (!comm.struck()) std::this_thread::yield();
                comm.release();
              });
            means(comm, 3, ring_steps);
            if (comm.rank() == 0) friendly.join();
          }).thrown.empty());
}

TEST_CASE("a frozen or silent rank is late by the clock of the others, and ends with their error") {
  for (const fault what : {fault::freeze, fault::drop})
    for (int round = fault_plan::posting; round < 2; ++round)
      for (const bool fused : {true, false}) {
        const outcome all = suffer({what, 1, 1, round}, [&](faulty_threads& comm) {
          std::thread clock;
          if (comm.rank() == 1)
            clock = std::thread([&] {
              while (!comm.struck()) std::this_thread::yield();
              seconds_passed += 10;
              while (!comm.failed()) std::this_thread::sleep_for(1ms), ++seconds_passed;
            });
          try {
            fused ? means(comm, 100, native_steps) : means(comm, 100, ring_steps);
            CHECK_MESSAGE(false, "nobody missed rank 1");
          } catch (...) {
            if (comm.rank() == 1) clock.join();
            throw;
          }
        });
        const std::string late = "did not come before the deadline of 10 s";
        CHECK_MESSAGE(all.thrown.find(late) != all.thrown.npos, all.thrown);
        for (const std::string& told : all.told) CHECK_MESSAGE(told.find(late) != told.npos, told);
      }
}

TEST_CASE("nothing of a silent rank arrives, from its round on") {
  // Rank 1 of two falls silent before it posts: rank 0 polls for ever.
  thread_group(2).run([](auto& own) {
    faulty comm{own, {.what = fault::drop, .rank = 1, .collective = 1, .round = fault_plan::posting}};
    const program p = compile(ring{}, own.rank(), 2);
    auto channel = comm.open(4);
    std::vector<float> values(4, static_cast<float>(own.rank()));
    const extent all{reinterpret_cast<std::byte*>(values.data()), 0, 4};
    const contribution mine{.buffer = {dtype::float32, std::span(&all, 1)}, .weight = 1};
    own.barrier();
    cursor first{.place = channel.post(p, mine)};
    CHECK(run(p, channel, first, comm.limit()));
    CHECK(channel.drain(p, first.place, comm.limit()));
    for (int i = 0; i < 3; ++i) {
      cursor at{.place = channel.post(p, mine)};
      CHECK(at.place.sequence == static_cast<std::uint32_t>(1 + i));
      own.barrier();
      if (i == 0 || own.rank() == 1) CHECK_FALSE(run(p, channel, at, deadline::poll()));
      own.barrier();
    }
    CHECK(comm.struck() == (own.rank() == 1));
    for (float x : values) CHECK(x == 0.5f);
  });
}

TEST_CASE("a new plan counts from where it is given") {
  const outcome all = suffer({fault::kill, 0, 5, 0}, [](auto& comm) {
    for (int i = 0; i < 4; ++i) comm.barrier();
    comm.plan({.what = fault::kill, .rank = 2, .collective = 3});
    for (int i = 0; i < 3; ++i) CHECK(comm.all_reduce(1) == 3);
    comm.barrier();
  });
  CHECK(all.thrown == "gradsync[rank 2]: killed in collective 3, round 0");
}

TEST_CASE("it stands below a synchronizer, whose error names the bucket") {
  struct param {
    std::vector<float> value, grad;
  };
  struct model {
    param weight, bias;
  };
  const outcome all = suffer({}, [](auto& comm) {
    model net{{std::vector<float>(20), std::vector<float>(20)}, {std::vector<float>(2), std::vector<float>(2)}};
    synchronizer sync{net, comm, {.bucket_bytes = 0, .progress = progress::at_marks}};
    CHECK(sync.layout() == layout::in_place);
    comm.plan({.what = fault::kill, .rank = 1, .collective = 4});  // after the first update's two, and one about the plan
    for (int update = 0; update < 2; ++update) {
      sync.mark_all_ready();
      sync.finish();
    }
  });
  CHECK(all.thrown == "gradsync[rank 1] step 1 bucket 1 \"weight\": killed in collective 4, round 0");
}

TEST_CASE("a seed always means the same fault, and seeds reach all of them") {
  constexpr fault_range range{.ranks = 3, .collectives = 5, .rounds = 2, .longest_delay = 7ns};
  constexpr fault_plan first = random_fault(1, range), again = random_fault(1, range);
  static_assert(first.what == again.what && first.rank == again.rank && first.round == again.round && first.delay == again.delay);
  std::set<std::string> kinds;
  std::set<int> ranks, rounds;
  std::set<std::uint64_t> collectives;
  std::set<std::int64_t> delays;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    const fault_plan plan = random_fault(seed, range);
    kinds.insert(name_of(plan.what));
    ranks.insert(plan.rank);
    rounds.insert(plan.round);
    collectives.insert(plan.collective);
    delays.insert(plan.delay.count());
  }
  CHECK(kinds == std::set<std::string>{"delay", "freeze", "drop", "kill"});
  CHECK(ranks == std::set<int>{0, 1, 2});
  CHECK(rounds == std::set<int>{fault_plan::posting, 0, 1, 2});
  CHECK(collectives == std::set<std::uint64_t>{0, 1, 2, 3, 4});
  CHECK(delays == std::set<std::int64_t>{1, 2, 3, 4, 5, 6, 7});
}
