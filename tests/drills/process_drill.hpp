// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// A drill over processes: trains a little, and at the chosen moment something happens to one of them. For a process_group
/// (drills/processes_test.cpp) and for programs under mpirun (tests/mpi/drill.cpp).
#pragma once

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "gradsync/collective/collective.hpp"
#include "gradsync/collective/ring.hpp"
#include "gradsync/collective/tree.hpp"
#include "gradsync/comm/faulty.hpp"
#include "gradsync/synchronizer.hpp"
#include "tests/sync/models.hpp"

namespace drills {

struct process_drill {
  std::string what;  ///< none, slow, exception, return: before a mark; kill, stop: in the bucket that the mark has sent, by the signal
  int victim;
  int mark;   ///< from 0 on; there are three an update
  int round;  ///< of kill and stop: before this one, -1: before the buffer is lent
  std::string strategy;

  bool signals() const { return what == "kill" || what == "stop"; }
  std::string text() const {
    return what + " " + std::to_string(victim) + " " + std::to_string(mark) + " " + std::to_string(round) + " " + strategy;
  }
  /// What every other rank must be told.
  bool is_told(const std::string& said) const {
    const std::string name = "rank " + std::to_string(victim) + " ";
    const auto says = [&](const char* part) { return said.find(name + part) != said.npos; };
    if (what == "exception") return says("failed: the batch is not a number");
    if (what == "return") return says("has returned from its function") || said.find("its synchronizer was destroyed") != said.npos;
    if (what == "kill") return says("has died (process ");
    return says("did not come before the deadline of ");
  }
};

/// So many drills of each rank. The moments differ, in the first update and in a later one and in each bucket, and so do the strategies.
inline std::vector<process_drill> drill_table(const std::string& what, int ranks, std::size_t drills_each) {
  struct moment {
    int mark, round;
  };
  const moment moments[] = {{0, -1}, {4, 0}, {5, 1}, {1, 1}, {6, 0}, {8, -1}};
  const char* const strategies[] = {"native", "ring", "tree", "ring", "native"};  // five, so that each comes to each moment
  std::vector<process_drill> all;
  for (int victim = 0; victim < ranks; ++victim)
    for (std::size_t i = 0; i < drills_each; ++i) {
      const moment& m = moments[all.size() % std::size(moments)];
      all.push_back({what, victim, m.mark, m.round, strategies[all.size() % std::size(strategies)]});
    }
  return all;
}

// Ends or stops this process as soon as its communicator is held in the chosen round.
template <class Communicator>
class executioner {
 public:
  executioner(const process_drill& d, Communicator& comm) {
    if (!d.signals() || comm.rank() != d.victim) return;
    thread_ = std::thread([this, &d, &comm] {
      while (!over_ && !comm.held()) std::this_thread::sleep_for(std::chrono::microseconds(50));
      if (!over_) std::raise(d.what == "kill" ? SIGKILL : SIGSTOP);
    });
  }
  ~executioner() {
    over_ = true;
    if (thread_.joinable()) thread_.join();
  }
  executioner(const executioner&) = delete;
  executioner& operator=(const executioner&) = delete;

 private:
  std::atomic<bool> over_{false};
  std::thread thread_;
};

template <class Communicator>
gradsync::collective<Communicator> strategy_of(const process_drill& d, Communicator& comm) {
  if (d.strategy == "ring") return {comm, gradsync::ring{}};
  if (d.strategy == "tree") return {comm, gradsync::tree{}};
  return gradsync::collective<Communicator>{comm};
}

/// One rank's function.
template <class Communicator>
void train(const process_drill& d, Communicator& own) {
  constexpr int steps = 4;
  const std::vector<std::size_t> counts = {300'000, 3, 70'000};  // a bucket each, the last one first
  const bool victim = own.rank() == d.victim;
  gradsync::faulty<Communicator> comm{own};
  test::layers net = test::make_layers(counts);
  gradsync::synchronizer sync{net, strategy_of(d, comm), {.bucket_bytes = 0, .replan = gradsync::replan::never}};
  comm.plan({.what = d.signals() ? gradsync::fault::freeze : gradsync::fault::none,
             .rank = d.victim,
             .collective = static_cast<std::uint64_t>(d.mark),
             .round = d.round});
  const executioner watches(d, comm);
  for (int update = 0, mark = 0; update < steps; ++update) {
    for (std::size_t bucket = 0; bucket < counts.size(); ++bucket, ++mark) {
      test::param& p = net.layer[counts.size() - 1 - bucket];
      p.grad.assign(p.value.size(), static_cast<float>(own.rank() + update));
      if (victim && mark == d.mark) {
        if (d.what == "exception") throw std::domain_error("the batch is not a number");
        if (d.what == "return") return;
        if (d.what == "slow") std::this_thread::sleep_for(std::chrono::milliseconds(300));
      }
      sync.mark_ready(p);
    }
    sync.finish();
    if (net.layer[0].grad[7] != static_cast<float>(own.size() - 1) / 2 + static_cast<float>(update)) throw std::logic_error("a wrong mean");
  }
}

}  // namespace drills
