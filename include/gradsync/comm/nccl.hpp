// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// GPUs that sum over NCCL: all that this needs, and the group of several GPUs in one process.
///
///     gradsync::nccl_group gpus;                        // all devices that this process sees; or nccl_group{{0, 2}}
///     gpus.run([](auto& comm) {                         // a thread a device, which is its current one
///       model net = make_model_on(comm.device());
///       gradsync::synchronizer sync{net, comm};
///     });
///
/// If the function throws on one rank, the communicators of all are aborted, the others' next call throws a `transport_error` that quotes
/// it, and `run` throws the first rank's exception itself. One process a GPU: `nccl_communicator{find_launch()}`.
#pragma once

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <cstdint>
#include <exception>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "gradsync/comm/nccl_communicator.hpp"
#include "gradsync/comm/nccl_start.hpp"
#include "gradsync/comm/nccl_world.hpp"
#include "gradsync/comm/threads.hpp"
#include "gradsync/core/error.hpp"
#include "gradsync/cuda/device.hpp"

namespace gradsync {

/// A rank a device, all in this process. It can run again after a failure.
class nccl_group {
 public:
  explicit nccl_group(nccl_options options = {}) : nccl_group(all_devices(), options) {}
  explicit nccl_group(std::vector<int> devices, nccl_options options = {}) : devices_(std::move(devices)), options_(options) {
    if (devices_.empty()) throw usage_error("an nccl_group needs at least one GPU");
    if (options.deadline <= options.deadline.zero()) throw usage_error("the deadline of an nccl_group must be longer than nothing");
    static_cast<void>(detail::nccl_config(options));
  }

  int size() const { return static_cast<int>(devices_.size()); }

  /// Calls `f(communicator)` on a thread a rank, and returns when all have returned. Throws what the first failing rank threw.
  template <class F>
  void run(F&& f) {
    auto outcome = std::make_shared<detail::failure>(size(), options_.clock);
    const auto world = detail::shared_world(size(), options_, outcome);
    thread_group(size(), {.deadline = options_.deadline, .clock = options_.clock}).run([&](thread_communicator& host) {
      const int rank = host.rank();
      check(cudaSetDevice(devices_[static_cast<std::size_t>(rank)]), "cudaSetDevice");
      broadcast_meeting meet(rank, size(), [&](std::span<std::byte> bytes, int root) {
        host.broadcast(std::span(reinterpret_cast<std::uint8_t*>(bytes.data()), bytes.size()), root);
      });
      const ncclUniqueId id = detail::agree(meet, rank, current_device());
      try {
        nccl_communicator comm(id, rank, size(), world);
        try {
          f(comm);
        } catch (...) {  // told before this rank's communicator ends, so that none takes the end for the cause
          outcome->conclude(rank, std::current_exception());
          host.fail(outcome->cause());  // which may be another rank's, or the watchdog's
          throw;
        }
        outcome->leave(rank);
      } catch (...) {
        outcome->conclude(rank, std::current_exception());
        throw;
      }
    });
  }

 private:
  static std::vector<int> all_devices() {
    std::vector<int> all;
    for (int device = 0; device < device_count(); ++device) all.push_back(device);
    return all;
  }

  std::vector<int> devices_;
  nccl_options options_;
};

}  // namespace gradsync
