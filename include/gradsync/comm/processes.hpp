// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// Ranks that are processes of one host, and share memory: started by torchrun, by hand, or by fork().
///
///     gradsync::process_group ranks;                   // who this process is, its launcher has said: comm/launch.hpp
///     ranks.run([](auto& comm) {                       // the same function that a thread_group takes
///       model net;
///       gradsync::synchronizer sync{net, comm};
///     });
///
///     MASTER_ADDR=127.0.0.1 MASTER_PORT=29500 WORLD_SIZE=2 RANK=0 ./train & …    # by hand
///
/// The processes meet at the launcher's address (comm/rendezvous.hpp), map each other's memory, and need the network no more. If the
/// function throws on one rank, every other rank's next wait ends with a `transport_error` that quotes it, and `run` throws on all of them.
/// A process that is killed is named by those who wait for it; one that is stopped is late. Nothing is left in /dev/shm in any case.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdio>  // introductions are read
#include <exception>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include <sys/syscall.h>
#include <unistd.h>

#include "gradsync/comm/hosts.hpp"
#include "gradsync/comm/launch.hpp"
#include "gradsync/comm/process_communicator.hpp"
#include "gradsync/comm/rendezvous.hpp"
#include "gradsync/core/error.hpp"

namespace gradsync {

struct process_group_options {
  std::chrono::nanoseconds deadline = std::chrono::minutes(10);  ///< how late a peer may be, at the start too
  clock_source clock = std::chrono::steady_clock::now;           ///< what reads the time after the start, for tests
};

/// This process is one of its ranks.
class process_group {
 public:
  explicit process_group(launch me = find_launch(), process_group_options options = {}) : me_(std::move(me)), options_(options) {
    if (options.deadline <= options.deadline.zero()) throw usage_error("the deadline of a process_group must be longer than nothing");
    if (me_.size > detail::shared_outcome::most_ranks)
      throw usage_error("a process_group has at most " + std::to_string(detail::shared_outcome::most_ranks) + " processes");
  }

  int rank() const { return me_.rank; }
  int size() const { return me_.size; }

  /// Calls `f(communicator)` when all processes have come, and returns when all have returned from it. Throws what it throws, and
  /// `transport_error` (or `mismatch_error`) if another rank has failed.
  template <class F>
  void run(F&& f) {
    std::vector<int> members;
    for (int rank = 0; rank < me_.size; ++rank) members.push_back(rank);
    const auto outcome = std::make_shared<detail::process_outcome>(meet(), std::move(members));
    try {
      process_communicator comm(outcome, 0);
      f(comm);
    } catch (...) {
      outcome->conclude(std::current_exception());
      outcome->leave();
      throw;
    }
    outcome->leave();
    outcome->await_others();
  }

 private:
  // What a process says of itself at the start, as text.
  static std::string introduction(const launch& me, const detail::shared_segment& own) {
    return std::to_string(host_id(me)) + " " + std::to_string(getpid()) + " " + std::to_string(own.file()) + " " +
           std::to_string(own.bytes());
  }

  std::shared_ptr<detail::process_job> meet() const {
    auto job = std::make_shared<detail::process_job>();
    job->rank = me_.rank, job->size = me_.size, job->limit = options_.deadline, job->clock = options_.clock;
    job->next_channel = 1;
    const auto own = std::make_shared<detail::shared_segment>();
    ::new (static_cast<void*>(own->data())) detail::shared_header;
    job->heap = std::make_shared<detail::shared_heap>(own, sizeof(detail::shared_header));
    rendezvous all(me_, options_.deadline);
    const std::vector<std::string> said = all.all_gather(introduction(me_, *own));
    for (int rank = 0; rank < me_.size; ++rank) reach(*job, rank, said[static_cast<std::size_t>(rank)], own);
    all.barrier();  // until then everybody is there to be mapped
    return job;
  }

  void reach(detail::process_job& job, int rank, const std::string& said, const std::shared_ptr<detail::shared_segment>& own) const {
    unsigned long long host = 0;
    int process = 0, file = 0;
    std::size_t bytes = 0;
    const place here{.rank = me_.rank, .step = -1, .bucket = -1, .parameter = {}};
    const std::string name = name_of_rank(rank, -1);
    if (std::sscanf(said.c_str(), "%llu %d %d %zu", &host, &process, &file, &bytes) != 4)
      throw mismatch_error(name + " is not in a process_group; make the same calls in the same order on every rank", here);
    if (host != host_id(me_))
      throw usage_error(name + " is on another host; a process_group has one, groups over hosts need NCCL or MPI", here);
    job.processes.push_back(process);
    if (rank == me_.rank) {
      job.segments.push_back(own);
      job.alive.emplace_back();
      return;
    }
    locating([&] { return here; }, [&] { job.segments.push_back(std::make_shared<detail::shared_segment>(process, file, bytes, name)); });
    job.alive.emplace_back(static_cast<int>(syscall(SYS_pidfd_open, process, 0)));
    if (!job.alive.back()) throw transport_error(name + " cannot be watched: " + detail::system_message(errno), here);
  }

  launch me_;
  process_group_options options_;
};

}  // namespace gradsync
