// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// A thread that looks after one rank's NCCL communicators, since NCCL by itself waits for a dead or late peer for ever.
///
/// Every few milliseconds it asks NCCL for asynchronous errors (ncclCommGetAsyncError), and CUDA whether the oldest piece of work that it
/// was told of is done. An error, or a deadline that has passed, fails this rank; once any rank of the group that it can see has failed, it
/// ends all of this rank's communicators (ncclCommAbort, or ncclCommRevoke), which ends the kernels and the calls that wait in them. The
/// rank learns the cause at its next call.
///
/// A graph's capture is not disturbed: the thread's capture mode is relaxed, and nothing that is being captured is watched. What a graph
/// does when it is launched, the caller can have watched: `watch` with the stream that it was launched on.
#pragma once

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gradsync/comm/nccl_check.hpp"
#include "gradsync/comm/nccl_world.hpp"
#include "gradsync/core/deadline.hpp"
#include "gradsync/core/error.hpp"
#include "gradsync/cuda/device.hpp"
#include "gradsync/cuda/event.hpp"

namespace gradsync::detail {

class nccl_watchdog {
  struct shared;

 public:
  /// What has to be done by when, and what to say if it isn't.
  struct work {
    std::string what;
    std::uint64_t number = 0;                   ///< in the roll of its communicator
    std::shared_ptr<const nccl_world> world{};  ///< whose roll; null: none is called
  };

  nccl_watchdog(int device, int rank, const nccl_options& options, std::shared_ptr<failure> outcome)
      : shared_(std::make_shared<shared>(device, rank, options, std::move(outcome))), thread_([s = shared_] { s->serve(); }) {}

  /// Waits for the thread, as long as a deadline; one that is stuck in NCCL is left behind.
  ~nccl_watchdog() {
    std::unique_lock hold(shared_->mutex);
    shared_->stop = true;
    shared_->changed.notify_all();
    const bool ended = shared_->changed.wait_for(hold, patience(), [&] { return shared_->stopped; });
    hold.unlock();
    if (!ended) {
      std::fprintf(stderr, "gradsync[rank %d]: NCCL has not returned from ncclCommAbort; its thread is left behind\n", shared_->rank);
      thread_.detach();
    } else {
      thread_.join();
    }
  }
  nccl_watchdog(const nccl_watchdog&) = delete;
  nccl_watchdog& operator=(const nccl_watchdog&) = delete;

  int device() const { return shared_->device; }

  /// How long the end of something may take in real time, whatever the clock of a test says.
  std::chrono::nanoseconds patience() const {
    return std::clamp<std::chrono::nanoseconds>(shared_->options.deadline, std::chrono::milliseconds(100), std::chrono::minutes(10));
  }

  /// From now on `comm` is looked after, and ended when the rank fails.
  void guard(ncclComm_t comm) {
    const std::lock_guard hold(shared_->mutex);
    shared_->guarded.push_back(comm);
  }

  /// Takes `comm` out of the watchdog's hands. What has become of it.
  enum class state { alive, revoked, ended };
  state release(ncclComm_t comm) {
    std::unique_lock hold(shared_->mutex);
    shared_->changed.wait_for(hold, patience(), [&] { return !shared_->ending; });
    if (std::erase(shared_->guarded, comm) > 0) return state::alive;
    return std::erase(shared_->revoked, comm) > 0 ? state::revoked : state::ended;
  }
  state state_of(ncclComm_t comm) const {
    const std::lock_guard hold(shared_->mutex);
    const auto in = [&](const std::vector<ncclComm_t>& all) { return std::find(all.begin(), all.end(), comm) != all.end(); };
    return in(shared_->guarded) ? state::alive : in(shared_->revoked) ? state::revoked : state::ended;
  }

  /// What `stream` has been given so far has the deadline to be done. Not for streams that are being captured.
  void watch(cudaStream_t stream, work what) {
    const std::lock_guard hold(shared_->mutex);
    if (shared_->spare.empty()) shared_->spare.emplace_back(shared_->device);
    cuda_event event = std::move(shared_->spare.back());
    shared_->spare.pop_back();
    event.record(stream);
    shared_->watched.push_back({std::move(event), stream, shared_->limit(), std::move(what)});
  }

  /// A call that blocks in NCCL on this thread: has the deadline too, after which its communicator is ended and it returns.
  class blocking_call {
   public:
    blocking_call(nccl_watchdog& dog, work what) : dog_(dog.shared_) {
      const std::lock_guard hold(dog_->mutex);
      dog_->calls.push_back({dog_->limit(), std::move(what)});
    }
    ~blocking_call() {
      const std::lock_guard hold(dog_->mutex);
      dog_->calls.pop_back();
    }
    blocking_call(const blocking_call&) = delete;
    blocking_call& operator=(const blocking_call&) = delete;

   private:
    std::shared_ptr<shared> dog_;
  };

  /// Has it look at once, since the group has failed.
  void nudge() {
    const std::lock_guard hold(shared_->mutex);
    shared_->changed.notify_all();
  }

  /// Throws if some rank has failed: what this rank has failed of by its watchdog, or what another one's cause was.
  void check() const {
    if (!shared_->outcome->failed()) return;
    const std::exception_ptr own = [&] {
      const std::lock_guard hold(shared_->mutex);
      return shared_->cause;
    }();
    if (own) std::rethrow_exception(own);
    shared_->outcome->report(shared_->rank);
  }

  /// Blocks until all that is watched on `stream` is done. Throws as `check`.
  void await(cudaStream_t stream) {
    std::unique_lock hold(shared_->mutex);
    while (std::any_of(shared_->watched.begin(), shared_->watched.end(), [&](const auto& w) { return w.stream == stream; })) {
      shared_->look();
      hold.unlock();
      check();
      std::this_thread::yield();
      hold.lock();
    }
    hold.unlock();
    check();
  }

  /// Waits until nothing that was watched is under way any more, or the rank has failed and its communicators are ended. False: neither
  /// has happened in time.
  bool quiesce() {
    std::unique_lock hold(shared_->mutex);
    return shared_->changed.wait_for(hold, patience(), [&] {
      if (shared_->outcome->failed()) return shared_->ended;
      shared_->look();
      return shared_->watched.empty();
    });
  }

 private:
  struct watched_work {
    cuda_event event;
    cudaStream_t stream;
    deadline until;
    work what;
  };
  struct watched_call {
    deadline until;
    work what;
  };

  struct shared {
    shared(int on_device, int of_rank, const nccl_options& chosen, std::shared_ptr<failure> all)
        : device(on_device), rank(of_rank), options(chosen), outcome(std::move(all)) {}

    deadline limit() const { return deadline::after(options.deadline, options.clock); }

    void serve() {
      static_cast<void>(cudaSetDevice(device));
      cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
      static_cast<void>(cudaThreadExchangeStreamCaptureMode(&mode));
      std::unique_lock hold(mutex);
      while (!stop) {
        changed.wait_for(hold, std::chrono::milliseconds(5));
        look();
        if (outcome->failed() && !ended) end(hold);
        changed.notify_all();  // those that wait for what it has found done
      }
      stopped = true;
      changed.notify_all();
    }

    // One look at everything; the mutex is held. What it finds fails the rank.
    void look() {
      if (outcome->failed()) return;
      try {
        for (const ncclComm_t comm : guarded) look_at(comm);
        for (const watched_call& call : calls) expect(call.until, call.what);
        look_at_work();
      } catch (...) {
        const std::exception_ptr found = std::current_exception();
        outcome->fail(rank, found);
        if (outcome->cause() == found) cause = found;
        changed.notify_all();
      }
    }

    void look_at(ncclComm_t comm) const {
      ncclResult_t error = ncclSuccess;
      gradsync::check(ncclCommGetAsyncError(comm, &error), "ncclCommGetAsyncError");
      if (error != ncclSuccess && error != ncclInProgress)
        throw nccl_error("NCCL reports an asynchronous error: " + gradsync::text_of(error), error);
    }

    // Streams go on by themselves; of each, the oldest work is the first to be done.
    void look_at_work() {
      std::vector<cudaStream_t> busy;
      for (auto w = watched.begin(); w != watched.end();) {
        if (std::find(busy.begin(), busy.end(), w->stream) != busy.end()) {
          ++w;
        } else if (w->event.done()) {
          const cudaStream_t stream = w->stream;
          spare.push_back(std::move(w->event));
          w = watched.erase(w);
          if (const auto next = std::find_if(w, watched.end(), [&](const auto& n) { return n.stream == stream; }); next != watched.end())
            next->until = limit();  // it could not begin before
        } else {
          busy.push_back(w->stream);
          expect(w->until, w->what);
          ++w;
        }
      }
    }

    void expect(const deadline& until, const work& what) const {
      const nccl_roll* roll = what.world != nullptr ? what.world->roll.get() : nullptr;
      const int absent = roll != nullptr ? roll->absent(what.number) : -1;
      if (absent >= 0 && what.world->outcome->gone(absent) && !outcome->failed() && roll->absent(what.number) == absent)
        throw transport_error(what.world->outcome->name(absent) + " has returned from its function and takes no part any more");
      if (!outcome->passed(until)) return;
      const std::string who = absent >= 0 ? what.world->outcome->name(absent) + " did not come" : "not all ranks came";
      throw timeout_error(who + " before the deadline of " + until.text() + " (" + what.what + ", collective " +
                          std::to_string(what.number) + " of this communicator)");
    }

    // NCCL may take its time: the mutex is not held meanwhile.
    void end(std::unique_lock<std::mutex>& hold) {
      ending = true;
      std::vector<ncclComm_t> all;
      all.swap(guarded);
      hold.unlock();
      std::vector<ncclComm_t> kept;
      for (const ncclComm_t comm : all)
        if (!end(comm)) kept.push_back(comm);
      hold.lock();
      revoked = std::move(kept);
      watched.clear();
      ending = false;
      ended = true;
      changed.notify_all();
    }

    bool end(ncclComm_t comm) const {
#if NCCL_VERSION_CODE >= 22800
      if (options.on_failure == nccl_ending::revoke && ncclCommRevoke(comm, NCCL_REVOKE_DEFAULT) == ncclSuccess) return false;
#endif
      static_cast<void>(ncclCommAbort(comm));
      return true;
    }

    const int device, rank;
    const nccl_options options;
    const std::shared_ptr<failure> outcome;
    std::mutex mutex;
    std::condition_variable changed;
    std::vector<ncclComm_t> guarded, revoked;
    std::deque<watched_work> watched;
    std::vector<watched_call> calls;
    std::vector<cuda_event> spare;
    std::exception_ptr cause;  // what this watchdog has failed the rank of
    bool stop = false, stopped = false, ending = false, ended = false;
  };

  std::shared_ptr<shared> shared_;
  std::thread thread_;
};

}  // namespace gradsync::detail
