// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

// Overlap, proved without a clock: backward can't end before communication has.
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "gradsync/collective/halving_doubling.hpp"
#include "gradsync/collective/ring.hpp"
#include "gradsync/collective/tree.hpp"
#include "gradsync/comm/threads.hpp"
#include "gradsync/synchronizer.hpp"
#include "tests/sync/models.hpp"

using namespace gradsync;

namespace {

using communicator = thread_communicator;

collective<communicator> strategy_number(int which, communicator& comm) {
  switch (which % 4) {
    case 0: return collective{comm, native{}};
    case 1: return collective{comm, tree{}};
    case 2: return collective{comm, ring{}};
    default: return collective{comm, halving_doubling{}};
  }
}

// One update of three layers, a bucket each. The gradient of the first layer, the last that backward computes, waits until all ranks have
// bucket 0.
bool backward_waits_for_bucket_0(synchronizer<test::layers, communicator>& sync, test::layers& net, communicator& comm,
                                 std::atomic<int>& arrived, std::atomic<bool>& give_up) {
  const int all = (arrived.load() / comm.size() + 1) * comm.size();
  for (std::size_t l : {2, 1}) {
    net.layer[l].grad.assign(net.layer[l].value.size(), static_cast<float>(comm.rank()));
    sync.mark_ready(net.layer[l]);
  }
  while (sync.completed_buckets() < 1)
    if (give_up.load()) return false;
    else std::this_thread::yield();
  ++arrived;
  while (arrived.load() < all)
    if (give_up.load()) return false;
    else std::this_thread::yield();
  net.layer[0].grad.assign(net.layer[0].value.size(), static_cast<float>(comm.rank()));
  sync.mark_ready(net.layer[0]);
  sync.finish();
  return true;
}

void a_thousand_times(int ranks, int times) {
  std::atomic<int> arrived{0};
  std::atomic<bool> never{false};
  std::atomic<int> wrong{0};
  thread_group(ranks).run([&](communicator& comm) {
    for (int which = 0; which < 4; ++which) {
      test::layers net = test::make_layers({10, 300, 77});
      synchronizer sync{net, strategy_number(which, comm), {.bucket_bytes = 0, .progress = progress::thread}};
      CHECK(sync.progress() == progress::thread);
      for (int i = 0; i < times / 4; ++i) {
        comm.barrier();
        if (!backward_waits_for_bucket_0(sync, net, comm, arrived, never)) ++wrong;
        for (const test::param& p : net.layer)
          for (float g : p.grad) wrong += g != static_cast<float>(ranks - 1) / 2;
      }
    }
  });
  CHECK(wrong == 0);
}

}  // namespace

TEST_CASE("bucket 0 is complete on all ranks while backward is still computing: 2 ranks, 1000 times") { a_thousand_times(2, 1000); }
TEST_CASE("bucket 0 is complete on all ranks while backward is still computing: 4 ranks, 1000 times") { a_thousand_times(4, 1000); }
TEST_CASE("bucket 0 is complete on all ranks while backward is still computing: 8 ranks, 1000 times") { a_thousand_times(8, 1000); }

TEST_CASE("with progress at marks nobody communicates while backward waits, so the same program does not get on") {
  std::atomic<int> arrived{0};
  std::atomic<bool> give_up{false};
  std::atomic<int> stuck{0};
  thread_group(2).run([&](communicator& comm) {
    test::layers net = test::make_layers({10, 300, 77});
    synchronizer sync{net, comm, {.bucket_bytes = 0, .progress = progress::at_marks}};
    comm.barrier();
    std::thread alarm;
    if (comm.rank() == 0)
      alarm = std::thread([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(200));
        give_up = true;
      });
    // Which rank marks last can drive bucket 1's pass at that mark, but no rank can see bucket 0 complete and the other see it too without
    // another mark.
    if (!backward_waits_for_bucket_0(sync, net, comm, arrived, give_up)) {
      ++stuck;
      net.layer[0].grad.assign(10, 0);
      sync.mark_ready(net.layer[0]);
      sync.finish();
    }
    if (alarm.joinable()) alarm.join();
  });
  CHECK(stuck == 2);
}

TEST_CASE("at marks, all ranks reach the line before finish() although one has not made its first mark") {
  for (int which = 0; which < 4; ++which) {
    std::atomic<int> before_finish{0};
    thread_group(4).run([&](communicator& comm) {
      test::layers net = test::make_layers({10, 300, 77});
      synchronizer sync{net, strategy_number(which, comm), {.bucket_bytes = 0, .progress = progress::at_marks}};
      for (test::param& p : net.layer) p.grad.assign(p.value.size(), 1);
      if (comm.rank() == 2)
        while (before_finish.load() < 3) std::this_thread::yield();  // would wait for ever if a mark waited
      for (std::size_t l : {2, 1, 0}) sync.mark_ready(net.layer[l]);
      ++before_finish;
      sync.finish();
      for (const test::param& p : net.layer)
        for (float g : p.grad) REQUIRE(g == 1);
    });
    CHECK(before_finish == 4);
  }
}

TEST_CASE("marks may come in any order; buckets leave in the order of the plan") {
  for (progress how : {progress::at_marks, progress::thread})
    thread_group(3).run([&](communicator& comm) {
      test::layers net = test::make_layers({4, 5, 6, 7});
      synchronizer sync{net, comm, {.bucket_bytes = 0, .progress = how}};
      const std::size_t orders[3][4] = {{0, 1, 2, 3}, {3, 1, 0, 2}, {2, 3, 1, 0}};  // each rank its own
      for (int repeat = 0; repeat < 50; ++repeat) {
        for (std::size_t l : orders[static_cast<std::size_t>(comm.rank() + repeat) % 3]) {
          net.layer[l].grad.assign(net.layer[l].value.size(), static_cast<float>(comm.rank() + static_cast<int>(l)));
          sync.mark_ready(net.layer[l].grad);
        }
        sync.finish();
        for (std::size_t l = 0; l < 4; ++l)
          for (float g : net.layer[l].grad) REQUIRE(g == static_cast<float>(1 + l));
      }
    });
}

TEST_CASE("metrics and recorder tell each bucket's way, and what stayed exposed") {
  thread_group(2).run([&](communicator& comm) {
    recorder times(comm.rank());
    test::layers net = test::make_layers({4, 5});
    synchronizer sync{net, comm, {.bucket_bytes = 0, .progress = progress::thread, .recorder = &times}};
    for (int step = 0; step < 3; ++step) {
      for (test::param& p : net.layer) p.grad.assign(p.value.size(), 1);
      sync.mark_ready(net.layer[1]);
      while (sync.completed_buckets() < 1) std::this_thread::yield();
      sync.mark_ready(net.layer[0]);
      sync.finish();
    }
    CHECK(sync.metrics().updates == 3);
    CHECK(sync.metrics().exposed() <= sync.metrics().busy());
    REQUIRE(times.steps().size() == 3);
    for (const step_times& s : times.steps()) {
      REQUIRE(s.buckets.size() == 2);
      CHECK(s.buckets[0].exposed.count() == 0);  // it was home before finish() was called
      CHECK(s.buckets[0].end <= s.finish);
      for (const bucket_times& b : s.buckets) CHECK((b.ready <= b.start && b.start <= b.end && b.end <= s.end));
      CHECK((s.begin <= s.buckets[0].ready && s.finish <= s.end));
    }
  });
}
