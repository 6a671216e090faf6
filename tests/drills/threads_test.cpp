// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

// One rank throws, returns early or freezes, at each point of an update, while its peers may be inside its gradients: every live rank ends
// with one error that quotes the cause, nobody hangs, no memory is touched after its owner has gone (the address sanitizer looks), and the
// next group works.
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "gradsync/collective/halving_doubling.hpp"
#include "gradsync/collective/recursive_doubling.hpp"
#include "gradsync/collective/ring.hpp"
#include "gradsync/collective/tree.hpp"
#include "gradsync/comm/threads.hpp"
#include "gradsync/synchronizer.hpp"
#include "tests/sync/models.hpp"

using namespace gradsync;

namespace {

using communicator = thread_communicator;

enum class fault { exception, early_return, freeze };

struct drill {
  int ranks, strategy, victim, point;  // point: how many of the update's marks the victim makes
  fault what;
  gradsync::progress progress;
  gradsync::layout layout;
  unsigned seed;
};

struct broken : std::runtime_error {
  using std::runtime_error::runtime_error;
};

constexpr int strategies = 5;

collective<communicator> strategy_number(int which, communicator& comm) {
  switch (which) {
    case 0: return collective{comm, native{}};
    case 1: return collective{comm, tree{}};
    case 2: return collective{comm, ring{}};
    case 3: return collective{comm, recursive_doubling{}};
    default: return collective{comm, halving_doubling{}};
  }
}

const std::vector<std::size_t> counts = {100, 60'000, 3, 40'000};

// Trains until the fault. What is thrown to a rank other than the victim is counted in `told` if it is what was promised.
void rank_of(const drill& d, communicator& comm, std::atomic<int>& told, std::atomic<bool>& thaw) {
  std::mt19937 random(d.seed * 31 + static_cast<unsigned>(comm.rank()));
  auto net = std::make_unique<test::layers>(test::make_layers(counts));  // on the heap: freed when this rank unwinds
  const bool victim = comm.rank() == d.victim;
  try {
    synchronizer sync{*net, strategy_number(d.strategy, comm), {.bucket_bytes = 100'000, .layout = d.layout, .progress = d.progress}};
    for (int step = 0; step < 100; ++step) {
      for (int l = 3; l >= 0; --l) {
        if (victim && step == 2 && 3 - l == d.point) {
          if (d.what == fault::exception) throw broken("disk full");
          if (d.what == fault::early_return) return;
          while (!thaw.load()) std::this_thread::yield();
        }
        test::param& p = net->layer[static_cast<std::size_t>(l)];
        p.grad.assign(p.value.size(), static_cast<float>(comm.rank()));
        if (random() % 4 == 0) std::this_thread::yield();
        sync.mark_ready(p);
      }
      if (victim && step == 2 && d.point == 4 && d.what == fault::exception) throw broken("disk full");
      sync.finish();
    }
  } catch (const error& e) {
    const std::string text = e.what();
    const std::string name = "rank " + std::to_string(d.victim);
    const char* cause = d.what == fault::exception ? "disk full" : d.what == fault::early_return ? "" : "did not come before the deadline";
    // An early leaver either destroys its synchronizer with buckets on their way, or is missed later.
    if (!victim && text.find(name) != text.npos && text.find(cause) != text.npos) ++told;
    if (comm.rank() != d.victim) thaw = true;
    throw;
  }
}

void perform(const drill& d) {
  std::atomic<int> told{0};
  std::atomic<bool> thaw{false};
  const auto limit = d.what == fault::freeze ? std::chrono::milliseconds(30) : std::chrono::milliseconds(60'000);
  const auto begin = std::chrono::steady_clock::now();
  bool ended = false;
  try {
    thread_group(d.ranks, {.deadline = limit}).run([&](communicator& comm) { rank_of(d, comm, told, thaw); });
  } catch (const broken&) {
    ended = d.what == fault::exception;
  } catch (const transport_error&) {
    ended = d.what == fault::early_return;
  } catch (const timeout_error&) {
    ended = d.what == fault::freeze;
  }
  const auto took = std::chrono::steady_clock::now() - begin;
  CHECK_MESSAGE((ended && told == d.ranks - 1 && took < std::chrono::seconds(20)), "ranks ", d.ranks, " strategy ", d.strategy, " victim ",
                d.victim, " point ", d.point, " fault ", static_cast<int>(d.what), " progress ", static_cast<int>(d.progress), " layout ",
                static_cast<int>(d.layout), " seed ", d.seed, ": told ", told.load());
}

// Sanitizers run a seeded sixth of them: they take as much longer.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr unsigned one_in = 6;
#else
constexpr unsigned one_in = 1;
#endif

void all_drills(fault what, unsigned seeds) {
  std::mt19937 choice(7);
  for (progress how : {progress::at_marks, progress::thread})
    for (int ranks : {2, 3, 5})
      for (int strategy = 0; strategy < strategies; ++strategy)
        for (int victim = 0; victim < ranks; ++victim)
          for (int point = 0; point < (what == fault::exception ? 5 : 4); ++point)
            for (unsigned seed = 0; seed < seeds; ++seed)
              if (choice() % one_in == 0)
                perform({ranks, strategy, victim, point, what, how, (victim + point) % 2 == 0 ? layout::in_place : layout::packed, seed});
}

}  // namespace

TEST_CASE("an exception of one rank ends all ranks, quotes its cause, and comes out of run() itself") { all_drills(fault::exception, 3); }

TEST_CASE("a rank that returns in the middle of an update is named by all others") { all_drills(fault::early_return, 2); }

TEST_CASE("a rank that freezes is named by all others at the deadline") {
  for (progress how : {progress::at_marks, progress::thread})
    for (int strategy = 0; strategy < strategies; ++strategy)
      for (int victim = 0; victim < 3; ++victim)
        perform({3, strategy, victim, (strategy + victim) % 4, fault::freeze, how, layout::in_place, 0});
}

TEST_CASE("after a failure the same group runs again") {
  thread_group ranks(3);
  CHECK_THROWS_AS(ranks.run([](auto& comm) {
    if (comm.rank() == 1) throw broken("once");
    comm.barrier();
  }),
                  broken);
  ranks.run([](auto& comm) { CHECK(comm.all_reduce(1) == 3); });
}
