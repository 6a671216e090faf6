// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// The state behind the NCCL that stands in. One mutex guards all of it; the CUDA runtime is never called while it is held.
#pragma once

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/cuda_standin/nccl_standin.hpp"

namespace standin::nccl {

enum class call { all_reduce, reduce, broadcast, all_gather, reduce_scatter, send, recv };
std::string name_of(call what);

/// One call, as the user made it.
struct task {
  call what;
  const void* from;
  void* to;
  std::size_t count;  // elements, as in the call
  ncclDataType_t type;
  ncclRedOp_t op;
  int peer;  // or root
  cudaStream_t stream;

  bool collective() const { return what != call::send && what != call::recv; }
  bool same_call(const task& b) const { return what == b.what && count == b.count && type == b.type && op == b.op && peer == b.peer; }
};

std::size_t bytes_of(ncclDataType_t type);
std::size_t input_bytes(const task& t, int rank, int size);  // 0: this rank gives nothing
std::size_t output_bytes(const task& t, int rank, int size);

using bytes = std::vector<std::byte>;

/// A collective as all ranks see it, from the first rank's arrival to the last one's departure.
struct meeting {
  std::vector<std::optional<task>> parts;    // by rank
  std::vector<std::optional<bytes>> inputs;  // by rank, as they were when they were read
  int left = 0;

  bool complete() const;  // all have come, and with the same call
  bool read() const;      // all inputs
};
bytes result_of(const meeting& m, int rank);

/// What one rank sends to another: messages by number, and how many the other has asked for.
struct wire {
  std::map<std::uint64_t, bytes> messages;
  std::uint64_t sent = 0, asked = 0;
};

/// The ranks of one communicator.
struct clique {
  explicit clique(int ranks) : size(ranks), members(static_cast<std::size_t>(ranks)) {}
  int size;
  std::vector<ncclComm*> members;             // by rank
  std::map<std::uint64_t, meeting> meetings;  // by number of the collective
  std::map<std::pair<int, int>, wire> wires;  // by sender and receiver
};

extern std::mutex& state;
extern std::condition_variable& changed;
extern policy current;
extern std::uint64_t operations_begun;

void fault(std::string text);      // `state` is held
bool chance();                     // `state` is held; replays with the seed
void add(ncclComm* comm);          // `state` is held
bool known(const ncclComm* comm);  // `state` is held

/// A call on a communicator: looks whether the handle is one, and whether another thread is in a call on it.
class inside {
 public:
  inside(ncclComm* comm, const char* what);
  ~inside();
  inside(const inside&) = delete;
  inside& operator=(const inside&) = delete;
  ncclResult_t result = ncclSuccess;

 private:
  ncclComm* comm_;
};

/// Puts all tasks of one communicator on their stream, where they go on together.
void launch(ncclComm* comm, std::vector<task> tasks);
/// Whether the calling thread has a group open.
bool in_group();

}  // namespace standin::nccl

struct ncclComm {
  enum class phase { ready, finalized, revoked, gone };

  std::shared_ptr<standin::nccl::clique> ranks;
  int rank = 0, device = 0;
  phase now = phase::ready;
  ncclResult_t error = ncclSuccess;
  std::uint64_t collectives = 0, operations = 0, divisions = 0;
  std::shared_ptr<bool> latest = std::make_shared<bool>(true);  // whether what was launched last is done
  std::shared_ptr<int> outstanding = std::make_shared<int>(0), captured = std::make_shared<int>(0);
  std::thread::id user;  // who is in a call, or has one in its group
  int calls = 0;
  std::uint64_t fails_at = static_cast<std::uint64_t>(-1);
  std::map<void*, std::pair<const std::byte*, std::size_t>> registered;

  bool ended() const { return now == phase::revoked || now == phase::gone; }
};
