// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

// One drill, as a program for mpirun: trains a little, and at the chosen moment something happens to one process.
//
//     mpirun -np 3 mpi_drill kill 1 5 0 ring       # SIGKILL of rank 1 in its sixth collective, before round 0
//
// Each rank says what it ended with, `gradsync[rank 0]: ...`, and returns 1 then.
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <thread>

#include "gradsync/collective/ring.hpp"
#include "gradsync/collective/tree.hpp"
#include "gradsync/comm/faulty.hpp"
#include "gradsync/comm/mpi.hpp"
#include "gradsync/synchronizer.hpp"
#include "tests/sync/models.hpp"

namespace {

using namespace gradsync;
using communicator = faulty<mpi_communicator>;

struct drill {
  std::string what;  // none, slow, kill, stop, exception, return
  int victim;
  int collective;  // of the synchronizer; what is no fault of the transport happens before the mark that begins it
  int round;
  std::string strategy;
};

constexpr int updates = 4;
const std::vector<std::size_t> counts = {300'000, 3, 70'000};  // a bucket each, the last one first

// Ends or stops this process as soon as its communicator is held in the chosen round.
class executioner {
 public:
  executioner(const drill& d, communicator& comm, bool victim) {
    if (!victim || (d.what != "kill" && d.what != "stop")) return;
    thread_ = std::thread([this, &d, &comm] {
      while (!over_ && !comm.held()) std::this_thread::sleep_for(std::chrono::microseconds(50));
      if (!over_) std::raise(d.what == "kill" ? SIGKILL : SIGSTOP);
    });
  }
  ~executioner() {
    over_ = true;
    if (thread_.joinable()) thread_.join();
  }

 private:
  std::atomic<bool> over_{false};
  std::thread thread_;
};

collective<communicator> strategy_of(const drill& d, communicator& comm) {
  if (d.strategy == "ring") return {comm, ring{}};
  if (d.strategy == "tree") return {comm, tree{}};
  return collective<communicator>{comm};
}

void train(const drill& d, mpi_communicator& own) {
  const bool victim = own.rank() == d.victim, faults = d.what == "kill" || d.what == "stop";
  communicator comm{own};
  test::layers net = test::make_layers(counts);
  synchronizer sync{net, strategy_of(d, comm), {.bucket_bytes = 0, .replan = replan::never}};
  comm.plan({.what = faults ? fault::freeze : fault::none,
             .rank = d.victim,
             .collective = static_cast<std::uint64_t>(d.collective),
             .round = d.round});
  const executioner watches(d, comm, victim);
  for (int update = 0, mark = 0; update < updates; ++update) {
    for (std::size_t bucket = 0; bucket < counts.size(); ++bucket, ++mark) {
      test::param& p = net.layer[counts.size() - 1 - bucket];
      p.grad.assign(p.value.size(), static_cast<float>(own.rank() + update));
      if (victim && mark == d.collective) {
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

}  // namespace

int main(int argc, char** argv) {
  if (argc < 6) return 2;
  const drill d{argv[1], std::atoi(argv[2]), std::atoi(argv[3]), std::atoi(argv[4]), argv[5]};
  try {
    mpi_group ranks{{.deadline = std::chrono::milliseconds(1500)}};
    ranks.run([&](auto& comm) { train(d, comm); });
    return 0;
  } catch (const std::exception&) {  // run() has said it
    return 1;
  }
}
