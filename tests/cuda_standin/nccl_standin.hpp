// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// What tests may ask of the NCCL that stands in: faults to play, and what it has caught.
///
/// Modelled, with the line of nccl.h or of NCCL's user guide that says so beside each rule in the sources:
///   - nothing of a group is enqueued before its outermost end; group state belongs to the thread;
///   - collectives of a communicator match by their order of execution; where ranks differ in call, count, type, operation or root, or a
///     rank doesn't come, nobody gets on, until the communicator is aborted or revoked;
///   - sends and receives of a pair match in order, whatever else is going on;
///   - a collective takes its input at any time between its beginning and its end, and its output holds garbage meanwhile;
///   - count 0 is dropped on this rank alone;
///   - the ring adds each chunk from another rank on: not the canonical order, the same bits on all ranks.
///
/// What only a real GPU can confirm: that an abort ends a kernel that waits for a peer, and how long it takes; that two communicators'
/// kernels fit on the device together; how ncclCommDestroy waits for other ranks; what registration makes faster.
#pragma once

#include <nccl.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace standin::nccl {

struct policy {
  bool memory_works = true;  ///< ncclMemAlloc
  bool windows_work = true;  ///< else ncclCommWindowRegister succeeds and leaves the handle untouched
  bool local_works = true;   ///< ncclCommRegister
  int failing_rank = -1;     ///< of the first communicator made after this; its rank whose operation `failing_operation` fails
  std::uint64_t failing_operation = 0;
  ncclResult_t failure = ncclRemoteError;
  std::chrono::milliseconds ending{0};  ///< how long ncclCommAbort and ncclCommRevoke take
};

/// From now on. Also forgets faults. The seed chooses when inputs are read.
void set(const policy& chosen, std::uint64_t seed = 0);

/// What no correct program does, in words: use after destruction, two threads at once, an unclosed group ...
std::vector<std::string> faults();

/// Communicators that are neither destroyed nor aborted.
int alive();

/// Operations that communicators of this process have begun so far.
std::uint64_t begun();

/// To be called where a thread has finished its part: a group that it has not closed is a fault.
void end_of_thread();

}  // namespace standin::nccl
