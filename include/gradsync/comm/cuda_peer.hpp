// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// Ranks that are threads of one process, each with a CUDA device; several may share one, so one GPU is enough to run every strategy.
///
///     gradsync::cuda_peer_group ranks{8, {0}};              // eight ranks on device 0; {0, 1} deals them out in turn
///     ranks.run([](auto& comm) {                            // comm.device() is current
///       device_model net(comm.rank());                      // its own tensors, in device memory
///       gradsync::synchronizer sync{net, comm};
///     });
///
/// Kernels read and write peers' memory directly, so every pair of devices must have peer access, and what is lent must come from
/// cudaMalloc or from `allocate` (cudaMallocAsync's pools give no access by themselves). Steps cannot be captured in CUDA graphs: ranks
/// meet on the host. Failure, deadlines and the user's own values are those of thread_group.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gradsync/comm/cuda_peer_channel.hpp"
#include "gradsync/comm/thread_communicator.hpp"
#include "gradsync/comm/threads.hpp"
#include "gradsync/comm/transport.hpp"
#include "gradsync/core/aligned_bytes.hpp"
#include "gradsync/core/error.hpp"
#include "gradsync/core/memory_space.hpp"
#include "gradsync/cuda/device.hpp"
#include "gradsync/cuda/memory.hpp"
#include "gradsync/cuda/parts.hpp"

namespace gradsync {

/// One rank's place in a cuda_peer_group, or in a part of it. Used by its rank's thread only.
class cuda_peer_communicator : private thread_communicator {
 public:
  static constexpr bool peer_addressable = true;  ///< peers read and write this rank's memory
  static constexpr memory_space space = memory_space::cuda;

  cuda_peer_communicator(thread_communicator&& threads, int device)
      : thread_communicator(std::move(threads)), device_(device), own_(open(1)) {}

  using thread_communicator::abandon;
  using thread_communicator::all_reduce;  // of values in host memory, as are the spans and values below
  using thread_communicator::barrier;
  using thread_communicator::broadcast;
  using thread_communicator::check;
  using thread_communicator::fail;
  using thread_communicator::failed;
  using thread_communicator::limit;
  using thread_communicator::now;
  using thread_communicator::others_wait;
  using thread_communicator::place_of;
  using thread_communicator::rank;
  using thread_communicator::size;

  int device() const { return device_; }

  /// A channel for up to `slots` collectives at a time. All ranks open their channels, and split, in the same order.
  cuda_peer_channel open(std::size_t slots) {
    auto [peers, shared] = share<detail::cuda_crossing>();
    return {std::move(peers), std::move(shared), device_, slots};
  }

  /// As thread_communicator's; each rank keeps its device.
  cuda_peer_communicator split(int color, int key = 0) { return {thread_communicator::split(color, key), device_}; }

  /// Zeros in the memory of this rank's device, for gradients.
  aligned_bytes allocate(std::size_t bytes) const { return {device_memory(bytes, device_), bytes}; }
  /// The default stream of this rank's device.
  cudaStream_t compute_stream() const { return nullptr; }

  /// Gives every rank the root's elements, which lie in device memory. Comes after what this rank's default stream has been given; blocks
  /// until they are there.
  void broadcast(const buffer_view& values, int root) {
    detail::expect_root(root, size(), place_of(rank()));
    on_device(values, detail::call_of_broadcast(root), [&](const ticket& t) { own_.broadcast(t, root, limit()); });
  }

  /// Adds, in device memory, all ranks' elements of `all`: `part` becomes the sum of those at this rank's place, in the canonical order.
  /// `all` has size() times as many elements, float32 or float64, in one piece; `part` lies elsewhere or at its own place there. When it
  /// comes, and that it blocks, is as in broadcast. `usage_error` if the two don't fit.
  void reduce_scatter(const buffer_view& part, const buffer_view& all) {
    const auto whole = detail::expect_parts("reduce_scatter", all, part, size(), place_of(rank()));
    if (all.type != dtype::float32 && all.type != dtype::float64)
      throw usage_error(std::string("reduce_scatter adds float32 and float64, not ") + name_of(all.type), place_of(rank()));
    on_device(all, detail::call_of_reduce_scatter, [&](const ticket& t) { own_.reduce_scatter(t, whole.part, limit()); });
  }

  /// `all` becomes every rank's `part`, by rank, in device memory. The rest as in reduce_scatter, but of any type.
  void all_gather(const buffer_view& all, const buffer_view& part) {
    const auto whole = detail::expect_parts("all_gather", all, part, size(), place_of(rank()));
    on_device(part, detail::call_of_all_gather, [&](const ticket& t) { own_.all_gather(t, whole.all, limit()); });
  }

 private:
  // Lends the elements, and waits until `enqueue` and all that it has enqueued are done.
  template <class F>
  void on_device(const buffer_view& lent, int call, F&& enqueue) {
    try {
      own_.stream().wait_for(compute_stream());
      enqueue(own_.post(alone_, {.buffer = lent, .scale = 1, .weight = 0, .call = call}));
      gradsync::check(cudaStreamSynchronize(own_.stream().native()), "cudaStreamSynchronize");
    } catch (...) {
      fail(std::current_exception());
      own_.leave();  // the elements and their extents are lent
      throw;
    }
  }

  int device_;
  program alone_;
  cuda_peer_channel own_;
};

/// N ranks in this process, dealt out to the devices in turn.
class cuda_peer_group {
 public:
  explicit cuda_peer_group(int size, std::vector<int> devices = {0}, thread_group_options options = {})
      : threads_(size, options), devices_(std::move(devices)) {
    if (size > detail::most_sources) throw usage_error("a cuda_peer_group has at most 64 ranks, not " + std::to_string(size));
    if (devices_.empty()) throw usage_error("a cuda_peer_group needs a device");
    const int count = device_count();
    for (const int device : devices_)
      if (device < 0 || device >= count)
        throw usage_error("there is no CUDA device " + std::to_string(device) + "; this process sees " + std::to_string(count));
    for (const int device : devices_)
      for (const int peer : devices_)
        if (device != peer) give_access(device, peer);
  }

  int size() const { return threads_.size(); }

  /// Calls `f(communicator)` on a thread a rank, whose device is current there, and returns when all have returned. Throws what the first
  /// failing rank threw.
  template <class F>
  void run(F&& f) {
    threads_.run([&](thread_communicator& threads) {
      const int device = devices_[static_cast<std::size_t>(threads.rank()) % devices_.size()];
      const on_device here(device);
      cuda_peer_communicator comm(std::move(threads), device);
      f(comm);
    });
  }

 private:
  static void give_access(int device, int peer) {
    const on_device here(device);
    int can = 0;
    check(cudaDeviceCanAccessPeer(&can, device, peer), "cudaDeviceCanAccessPeer");
    if (can == 0)
      throw usage_error("CUDA device " + std::to_string(device) + " cannot access the memory of device " + std::to_string(peer) +
                        "; use NCCL between them");
    if (const cudaError_t code = cudaDeviceEnablePeerAccess(peer, 0); code != cudaErrorPeerAccessAlreadyEnabled)
      check(code, "cudaDeviceEnablePeerAccess");
    else cudaGetLastError();
  }

  thread_group threads_;
  std::vector<int> devices_;
};

static_assert(transport<cuda_peer_communicator>);

}  // namespace gradsync
