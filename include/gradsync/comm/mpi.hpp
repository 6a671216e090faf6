// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// Ranks that are processes of an MPI job, on one host or many.
///
///     int main() {
///       gradsync::mpi_group ranks;                   // MPI_Init, unless that is done; MPI_Finalize in the end, if it was
///       ranks.run([](auto& comm) {                   // on this process's rank
///         int highest = comm.all_reduce(comm.rank(), gradsync::reduce_op::max);
///       });
///     }
///
///     mpirun -np 4 program
///
/// As with threads: if the function throws on one rank, every other rank's next wait ends with a `transport_error` that quotes it, `run`
/// throws on each rank what its own function threw, and the group can run again. As with threads the bits are those of the canonical tree.
/// What processes have beside: one that is killed or stops is named by all others at their deadline, and where a process does not come to
/// the end of a failed run, the others print their errors and end the job.
///
/// Messages are non-blocking sends and receives, driven by whoever waits or marks a gradient; by a thread of the synchronizer's own only
/// where MPI grants MPI_THREAD_MULTIPLE, which is asked for.
#pragma once

#include <mpi.h>

#include <chrono>
#include <exception>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "gradsync/comm/message_communicator.hpp"
#include "gradsync/comm/message_world.hpp"
#include "gradsync/comm/mpi_endpoint.hpp"
#include "gradsync/comm/mpi_process.hpp"

namespace gradsync {

namespace detail {

/// The ranks of a run, or a part of them.
class mpi_world : public message_world {
 public:
  explicit mpi_world(std::shared_ptr<mpi_process> process)
      : message_world(process->outcome(), process->rank(), process->size(), process->next()), process_(std::move(process)) {
    process_->take_number(number_);
  }

  deadline limit() const { return deadline::after(process_->options().deadline, process_->options().clock); }
  bool allows_driver_thread() const { return process_->session().threads() == MPI_THREAD_MULTIPLE; }

  mpi_endpoint open() {
    const int most = (process_->session().highest_tag() >> tag_bits) + 1;
    if (opened_ == 1 << tag_bits || number_ >= most)
      throw usage_error(
          "this program has opened as many channels as MPI's tags can tell apart; keep synchronizers and communicators "
          "instead of making them again and again",
          outcome_->at(rank_));
    return {process_, outcome_, rank_, size_, (number_ << tag_bits) + opened_++};
  }

  int next() const { return process_->next(); }
  mpi_world part(std::span<const int> members, int rank, int number) const {
    mpi_world w = *this;
    process_->take_number(number);
    w.narrow(members, rank, number);
    return w;
  }

  void fail(std::exception_ptr cause) const { process_->fail(std::move(cause)); }
  void abandon(std::exception_ptr meanwhile) const { process_->abandon(std::move(meanwhile)); }

 private:
  static constexpr int tag_bits = 12;  // MPI promises 15 bits for a tag, and has 28 or more

  std::shared_ptr<mpi_process> process_;
};

}  // namespace detail

using mpi_communicator = message_communicator<detail::mpi_world>;

class mpi_group {
 public:
  /// All processes of `of`, which is MPI_COMM_WORLD if MPI is to be initialised. All of them make theirs together. `usage_error` if the
  /// launcher (comm/launch.hpp) has started other processes than MPI finds.
  explicit mpi_group(const mpi_group_options& options = {}) : mpi_group(MPI_COMM_WORLD, options) {}
  explicit mpi_group(MPI_Comm of, const mpi_group_options& options = {}) {
    if (options.deadline <= options.deadline.zero()) throw usage_error("the deadline of an mpi_group must be longer than nothing");
    process_ = std::make_shared<detail::mpi_process>(of, options);
  }

  int rank() const { return process_->rank(); }
  int size() const { return process_->size(); }
  /// What MPI promises about threads, in words.
  std::string describe() const {
    return std::string("MPI with ") + std::to_string(size()) + (size() == 1 ? " rank; " : " ranks; ") +
           (process_->session().threads() == MPI_THREAD_MULTIPLE ? "any thread may communicate"
                                                                 : "one thread communicates, when it marks or waits");
  }

  /// Calls `f(communicator)`, and returns when it has returned on all ranks. Throws what it threw here, or what this rank is told of
  /// another's failure.
  template <class F>
  void run(F&& f) {
    process_->begin_run();
    std::exception_ptr mine;
    try {
      mpi_communicator comm{detail::mpi_world(process_)};
      f(comm);
    } catch (...) {
      mine = std::current_exception();
      if (!mine) throw;  // pthread_exit() unwinds with what is no exception, and must go on
      process_->conclude(mine);
    }
    process_->end_run(mine);
  }

 private:
  std::shared_ptr<detail::mpi_process> process_;
};

static_assert(transport<mpi_communicator>);

}  // namespace gradsync
