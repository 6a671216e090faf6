// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// How the ranks of an NCCL communicator find each other: each tells the others which device it has, rank 0 tells NCCL's unique id, and
/// two ranks on one device are refused before NCCL sees them.
///
/// Processes that a launcher has started meet at MASTER_ADDR and MASTER_PORT or in a file (comm/rendezvous.hpp); where NCCL_COMM_ID is set,
/// they need not meet, and NCCL itself refuses two ranks on one device. Anything else that gathers a string of every rank will do, such as
/// a broadcast of your own:
///
///     gradsync::broadcast_meeting meet{rank, size, [&](std::span<std::byte> bytes, int root) { MPI_Bcast(...); }};
///     gradsync::nccl_communicator comm{meet, rank, size};
#pragma once

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "gradsync/comm/launch.hpp"
#include "gradsync/comm/nccl_check.hpp"
#include "gradsync/comm/nccl_ends_within.hpp"
#include "gradsync/comm/nccl_link.hpp"
#include "gradsync/comm/rendezvous.hpp"
#include "gradsync/core/error.hpp"
#include "gradsync/cuda/device.hpp"

namespace gradsync {

template <class M>
concept meeting = requires(M& m, const std::string& mine) {
  { m.all_gather(mine) } -> std::same_as<std::vector<std::string>>;  // what each rank gives, by rank
};

/// A meeting made of a broadcast: `f(bytes, root)` gives every rank the root's bytes. What is gathered has at most 248 bytes.
template <class F>
class broadcast_meeting {
 public:
  broadcast_meeting(int rank, int size, F f) : rank_(rank), size_(size), broadcast_(std::move(f)) {}

  std::vector<std::string> all_gather(const std::string& mine) {
    std::vector<std::string> all;
    for (int root = 0; root < size_; ++root) {
      std::byte bytes[256] = {};
      const std::size_t length = mine.size();
      if (root == rank_ && length > sizeof bytes - 8) throw usage_error("a broadcast_meeting gathers at most 248 bytes of a rank");
      if (root == rank_) std::memcpy(bytes, &length, 8), std::memcpy(bytes + 8, mine.data(), length);
      broadcast_(std::span<std::byte>(bytes), root);
      std::size_t theirs = 0;
      std::memcpy(&theirs, bytes, 8);
      all.emplace_back(reinterpret_cast<const char*>(bytes + 8), theirs);
    }
    return all;
  }

 private:
  int rank_, size_;
  F broadcast_;
};

namespace detail {

inline std::string uuid_of(int device) {
  cudaDeviceProp properties;
  check(cudaGetDeviceProperties(&properties, device), "cudaGetDeviceProperties");
  return {properties.uuid.bytes, sizeof properties.uuid.bytes};
}

inline ncclUniqueId new_unique_id() {
  ncclUniqueId id;
  check(ncclGetUniqueId(&id), "ncclGetUniqueId");
  return id;
}

/// Rank 0's unique id. `usage_error` on all ranks if two have the same device, whose names it says.
template <meeting Meeting>
ncclUniqueId agree(Meeting& meet, int rank, int device) {
  ncclUniqueId id{};
  std::string mine = uuid_of(device);
  const std::size_t uuid = mine.size();
  if (rank == 0) {
    id = new_unique_id();
    mine.append(id.internal, sizeof id.internal);
  }
  const std::vector<std::string> all = meet.all_gather(mine);
  for (std::size_t a = 0; a < all.size(); ++a)
    for (std::size_t b = a + 1; b < all.size(); ++b)
      if (all[a].compare(0, uuid, all[b], 0, uuid) == 0)
        throw usage_error("ranks " + std::to_string(a) + " and " + std::to_string(b) +
                              " have the same GPU, which NCCL does not support; give each rank a device of its own",
                          {.rank = rank, .step = -1, .bucket = -1, .parameter = {}});
  if (all.at(0).size() != uuid + sizeof id.internal) throw mismatch_error("rank 0 did not tell NCCL's unique id");
  std::memcpy(id.internal, all[0].data() + uuid, sizeof id.internal);
  return id;
}

/// For processes that a launcher has started.
inline ncclUniqueId agree(const launch& me, const nccl_options& options) {
  if (std::getenv("NCCL_COMM_ID") != nullptr) return new_unique_id();  // the same on all ranks
  rendezvous meet(me, options.deadline);
  return agree(meet, me.rank, current_device());
}

/// NCCL's communicator, on the current device. Blocks until all ranks have come; NCCL knows no deadline, so a thread of its own waits for
/// it, and is left behind where a rank does not come.
inline ncclComm_t connect(const ncclUniqueId& id, int rank, int size, const nccl_options& options) {
  struct outcome {
    ncclComm_t comm = nullptr;
    ncclResult_t result = ncclInProgress;
    std::string text;
  };
  const auto made = std::make_shared<outcome>();
  const auto limit = options.deadline;
  const bool ended = ends_within(limit, [=, device = current_device(), config = nccl_config(options)]() mutable {
    static_cast<void>(cudaSetDevice(device));
    made->result = ncclCommInitRankConfig(&made->comm, size, id, rank, &config);
    if (made->result != ncclSuccess) made->text = gradsync::text_of(made->result);  // NCCL keeps the reason by thread
  });
  const place here{.rank = rank, .step = -1, .bucket = -1, .parameter = {}};
  if (!ended)
    throw timeout_error("not all " + std::to_string(size) + " ranks came to make NCCL's communicator before the deadline of " +
                            deadline::after(limit).text(),
                        here);
  if (made->result == ncclInvalidArgument || made->result == ncclInvalidUsage)
    throw usage_error("ncclCommInitRankConfig: " + made->text, here);
  if (made->result != ncclSuccess) throw transport_error("ncclCommInitRankConfig: " + made->text, here);
  return made->comm;
}

}  // namespace detail

}  // namespace gradsync
