// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// One NCCL communicator of one rank, from its making to its end, and what belongs to it: memory that it has registered, and graphs that
/// have captured its collectives.
///
/// The end has an order: graphs, registrations, ncclCommFinalize, ncclCommDestroy. `close` keeps to it, and throws a `usage_error` where a
/// graph is still alive. The destructor does the same, says on the error output what it can't do, and leaves the communicator behind rather
/// than hang or pull it from under a graph. So it is with memory: what is given back while a graph is alive stays, registered as it is,
/// until none is, and is left behind with the communicator. Whoever launches such a graph too late reads and writes what is still there.
#pragma once

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gradsync/comm/nccl_check.hpp"
#include "gradsync/comm/nccl_ends_within.hpp"
#include "gradsync/comm/nccl_watchdog.hpp"
#include "gradsync/comm/nccl_world.hpp"
#include "gradsync/core/error.hpp"
#include "gradsync/cuda/capture.hpp"
#include "gradsync/cuda/device.hpp"
#include "gradsync/cuda/stream.hpp"

namespace gradsync::detail {

/// One config for all communicators: blocking, with both numbers of thread blocks or none, since NCCL refuses one of them alone.
inline ncclConfig_t nccl_config(const nccl_options& options) {
  if ((options.min_ctas > 0) != (options.max_ctas > 0) || options.min_ctas > options.max_ctas || options.min_ctas < 0)
    throw usage_error("min_ctas is " + std::to_string(options.min_ctas) + " and max_ctas " + std::to_string(options.max_ctas) +
                      "; give both, the lower one first, or neither");
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 1;
  if (options.min_ctas > 0) config.minCTAs = options.min_ctas, config.maxCTAs = options.max_ctas;
  return config;
}

/// Keeps memory to the end of the process: a graph may use it, and nobody will know when that is gone.
inline void leave_behind(std::vector<std::shared_ptr<void>> memory) {
  struct store {
    std::mutex mutex;
    std::vector<std::vector<std::shared_ptr<void>>> all;
  };
  static store* const behind = new store;  // which no static destructor frees
  const std::lock_guard hold(behind->mutex);
  behind->all.push_back(std::move(memory));
}

class nccl_link {
 public:
  nccl_link(ncclComm_t comm, int rank, std::shared_ptr<nccl_world> world, std::shared_ptr<nccl_watchdog> dog)
      : comm_(comm), rank_(rank), world_(std::move(world)), dog_(std::move(dog)) {
    dog_->guard(comm_);
  }
  ~nccl_link() {
    close_or_print();
    if (!given_.empty() && !graphs_.gone()) leave_behind(std::move(given_));
  }
  nccl_link(const nccl_link&) = delete;
  nccl_link& operator=(const nccl_link&) = delete;

  int rank() const { return rank_; }
  int device() const { return dog_->device(); }
  nccl_world& world() const { return *world_; }
  const std::shared_ptr<nccl_world>& shared_world() const { return world_; }
  const std::shared_ptr<nccl_watchdog>& watchdog() const { return dog_; }
  failure& outcome() const { return *world_->outcome; }
  const captured_graphs& graphs() const { return graphs_; }

  /// For a call on it. Throws what has failed, or that it has been closed.
  ncclComm_t native() const {
    if (comm_ == nullptr) throw usage_error("its communicator has been closed", outcome().at(rank_));
    check();
    return comm_;
  }
  void check() const {
    located([&] { dog_->check(); });
  }
  void fail(std::exception_ptr cause) {
    outcome().fail(rank_, std::move(cause));
    dog_->nudge();
  }

  /// Says to the other ranks of this process what is asked for next; its number. Where one has asked for something else, all fail.
  std::uint64_t announce(const nccl_request& request) {
    if (world_->roll == nullptr) return requests_++;
    const auto other = world_->roll->answer(rank_, request);
    if (other.peer < 0) return requests_++;
    const mismatch_error found(outcome().name(other.peer) + " calls " + text_of(other.theirs) + ", this rank " + text_of(request) +
                                   "; make the same calls with the same lengths in the same order on every rank",
                               outcome().at(rank_));
    fail(std::make_exception_ptr(found));
    throw found;
  }

  /// What `stream` has been given so far, of which request `number` is the last, is watched, unless it was captured.
  void enqueued(cudaStream_t stream, const char* what, std::uint64_t number) {
    if (!is_capturing(stream)) dog_->watch(stream, {what, number, world_});
  }
  /// `stream` is being captured into a graph that this communicator, and all memory that is given back later, has to outlive.
  void captured_on(cudaStream_t stream) { graphs_.add(stream); }

  /// A stream of which a capture may take hold; as long as `stream` lives.
  void add_stream(std::weak_ptr<cuda_stream> stream) {
    std::erase_if(streams_, [](const auto& one) { return one.expired(); });
    streams_.push_back(std::move(stream));
  }
  /// And the one where the user computes, unless he says otherwise.
  cudaStream_t compute_stream() const { return compute_; }
  void compute_on(cudaStream_t stream) { compute_ = stream; }

  /// `usage_error` while one of them is being captured.
  void refuse_capture(const std::string& what) const {
    if (is_capturing(compute_)) refuse(what);
    for (const auto& one : streams_)
      if (const auto stream = one.lock(); stream != nullptr && is_capturing(stream->native())) refuse(what);
  }

  /// Blocks until the device has done all that it has been given. `usage_error` where any capture does not allow it.
  void synchronize_device(const std::string& what) const {
    const cudaError_t code = cudaDeviceSynchronize();
    if (blames_capture(code)) {
      cudaGetLastError();
      refuse(what);
    }
    gradsync::check(code, "cudaDeviceSynchronize");
  }

  /// Before memory is given back, and after a failure: returns when the device has done all that the stream was given. Where that takes
  /// longer than a deadline, it says so on the error output and returns.
  void settle(cuda_stream& stream) noexcept {
    try {
      const uncaptured meanwhile;
      const auto until = std::chrono::steady_clock::now() + dog_->patience();
      bool done = dog_->quiesce();
      const cudaStream_t native = stream.native();
      for (; !done || cudaStreamQuery(native) == cudaErrorNotReady; done = true) {
        if (std::chrono::steady_clock::now() > until) throw transport_error("the device has not left this rank's memory in time");
        std::this_thread::sleep_for(std::chrono::microseconds(50));
      }
    } catch (const std::exception& e) {
      std::fprintf(stderr, "gradsync[%s]: %s\n", outcome().name(rank_).c_str(), e.what());
    }
    cudaGetLastError();  // what has failed the device was thrown where it was noticed
  }

  /// Blocks until all that is watched on the stream is done. Throws as `check`.
  void await(cudaStream_t stream) {
    const uncaptured meanwhile;
    located([&] { dog_->await(stream); });
  }

  /// A call that waits for peers on the host.
  nccl_watchdog::blocking_call blocking(const char* what) { return {*dog_, {what, requests_, nullptr}}; }

  /// Makes device memory known to NCCL. What was obtained; `none`: NCCL goes without, and nothing is wrong.
  nccl_registration enter(std::byte* data, [[maybe_unused]] std::size_t bytes) {
    [[maybe_unused]] const nccl_registration wanted = world_->options.registration;
    registered one{.data = data};
#if NCCL_VERSION_CODE >= 22700
    // NCCL's own memory begins at a border of pages, as windows must.
    if (wanted == nccl_registration::window && reinterpret_cast<std::uintptr_t>(data) % 4096 == 0) {
      const auto waiting = blocking("ncclCommWindowRegister");
      gradsync::check(ncclCommWindowRegister(native(), data, bytes, &one.window, NCCL_WIN_COLL_SYMMETRIC), "ncclCommWindowRegister");
      if (one.window != nullptr) one.how = nccl_registration::window;  // success may mean that there is none
    }
#endif
#if NCCL_VERSION_CODE >= 21900
    if (one.how == nccl_registration::none && wanted != nccl_registration::none)
      if (ncclCommRegister(native(), data, bytes, &one.handle) == ncclSuccess && one.handle != nullptr) one.how = nccl_registration::local;
#endif
    if (one.how != nccl_registration::none) registered_.push_back(one);
    return one.how;
  }

  /// Frees memory that collectives have used, when what is under way in it has ended. While any graph is alive, which may use it, it stays:
  /// until this is called when none is, or the communicator goes.
  void give_back(std::shared_ptr<void> memory) {
    given_.push_back(std::move(memory));
    if (graphs_.alive() > 0) return;
    for (const auto& one : given_) forget(one.get());
    given_.clear();
  }

  /// NCCL's communicator, if it is still there: in use, or revoked.
  ncclComm_t remains() const { return comm_ != nullptr && dog_->state_of(comm_) != nccl_watchdog::state::ended ? comm_ : nullptr; }

  /// For destructors: what `close` would throw is printed, and the communicator then left behind.
  void close_or_print() noexcept {
    try {
      close();
    } catch (const std::exception& e) {
      std::fprintf(stderr, "%s; it is left behind\n", e.what());
      comm_ = nullptr;
    }
  }

  /// Ends it, in order. `usage_error`, and nothing changed, while a graph is alive that has captured its collectives.
  void close() {
    if (comm_ == nullptr) return;
    if (!graphs_.gone())
      throw usage_error(
          "a CUDA graph that has captured this communicator's collectives is alive, and may not be launched without it; destroy graphs, "
          "and what was instantiated from them, before the communicator",
          outcome().at(rank_));
    const bool quiet = dog_->quiesce();
    if (quiet && !outcome().failed())
      for (const registered& one : registered_) deregister(one);
    registered_.clear();
    const ncclComm_t comm = std::exchange(comm_, nullptr);
    const auto state = dog_->release(comm);
    if (state == nccl_watchdog::state::ended) return;
    const bool healthy = quiet && state == nccl_watchdog::state::alive && !outcome().failed();
    const bool ended = ends_within(dog_->patience(), [comm, healthy, device = device()] {
      static_cast<void>(cudaSetDevice(device));
      if (healthy && ncclCommFinalize(comm) == ncclSuccess) static_cast<void>(ncclCommDestroy(comm));
      else static_cast<void>(ncclCommAbort(comm));
    });
    if (!ended)
      std::fprintf(stderr, "gradsync[%s]: NCCL has not ended the communicator in time; it is left behind\n", outcome().name(rank_).c_str());
  }

 private:
  struct registered {
    std::byte* data = nullptr;
    nccl_registration how = nccl_registration::none;
    void* handle = nullptr;
#if NCCL_VERSION_CODE >= 22700
    ncclWindow_t window = nullptr;
#endif
  };

  template <class F>
  void located(F&& f) const {
    locating([&] { return outcome().at(rank_); }, f);
  }

  [[noreturn]] void refuse(const std::string& what) const {
    throw usage_error(what + " waits for the device, which the capture of a CUDA graph does not allow; call it before or after",
                      outcome().at(rank_));
  }

  void forget(const void* data) {
    if (comm_ == nullptr) return;
    const auto is = [&](const registered& one) { return one.data == data; };
    const bool ended = dog_->quiesce() && !outcome().failed();
    for (const registered& one : registered_)
      if (is(one) && ended) deregister(one);
    std::erase_if(registered_, is);
  }

  void deregister([[maybe_unused]] const registered& one) const {
#if NCCL_VERSION_CODE >= 22700
    if (one.how == nccl_registration::window) static_cast<void>(ncclCommWindowDeregister(comm_, one.window));
#endif
#if NCCL_VERSION_CODE >= 21900
    if (one.how == nccl_registration::local) static_cast<void>(ncclCommDeregister(comm_, one.handle));
#endif
  }

  ncclComm_t comm_;
  int rank_;
  std::shared_ptr<nccl_world> world_;
  std::shared_ptr<nccl_watchdog> dog_;
  captured_graphs graphs_;
  std::vector<registered> registered_;
  std::vector<std::shared_ptr<void>> given_;  // back, while a graph is alive
  std::vector<std::weak_ptr<cuda_stream>> streams_;
  cudaStream_t compute_ = nullptr;
  std::uint64_t requests_ = 0;
};

/// Closes the communicator when its owner goes, whoever else still has a part of it.
struct end_of_link {
  explicit end_of_link(std::shared_ptr<nccl_link> of) : link(std::move(of)) {}
  end_of_link(end_of_link&&) = default;
  end_of_link& operator=(end_of_link&&) = default;
  ~end_of_link() {
    if (link != nullptr) link->close_or_print();
  }

  std::shared_ptr<nccl_link> link;
};

}  // namespace gradsync::detail
