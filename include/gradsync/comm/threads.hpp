// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// Ranks that are threads of one process.
///
///     gradsync::thread_group ranks{4};
///     ranks.run([](auto& comm) {                       // four threads, each with its own communicator
///       int mine = comm.rank();
///       int highest = comm.all_reduce(mine, gradsync::reduce_op::max);   // 3 on every rank
///     });
///
/// If the function throws on one rank, every other rank's next wait ends with a `transport_error` that quotes it, and `run` throws the
/// first rank's exception itself. A group can run again after that.
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>  // run() waits for its threads and can say for whom
#include <cstdio>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#include "gradsync/comm/thread_channel.hpp"
#include "gradsync/comm/transport.hpp"
#include "gradsync/core/deadline.hpp"
#include "gradsync/core/dtype.hpp"
#include "gradsync/core/error.hpp"
#include "gradsync/core/host_stream.hpp"

namespace gradsync {

struct thread_group_options {
  std::chrono::nanoseconds deadline = std::chrono::minutes(10);  ///< how late a peer may be
  clock_source clock = std::chrono::steady_clock::now;           ///< what reads the time, for tests
};

namespace detail {

// All that the ranks of one run share.
struct world {
  world(int ranks, const thread_group_options& chosen)
      : size(ranks), options(chosen), outcome(std::make_shared<failure>(ranks, chosen.clock)) {}

  std::shared_ptr<crossing> meet(std::size_t n) {
    const std::lock_guard hold(mutex);
    while (crossings.size() <= n) crossings.push_back(std::make_shared<crossing>(size));
    return crossings[n];
  }

  int size;
  thread_group_options options;
  std::shared_ptr<failure> outcome;
  std::mutex mutex;
  std::deque<std::shared_ptr<crossing>> crossings;
};

}  // namespace detail

/// One rank's place in its group. Used by that rank's thread only; what it opened may be driven by another.
class thread_communicator {
 public:
  static constexpr bool peer_addressable = true;  ///< peers read and write this rank's memory
  using stream_type = host_stream;

  thread_communicator(std::shared_ptr<detail::world> world, int rank) : world_(std::move(world)), rank_(rank), own_(open(1)) {}

  int rank() const { return rank_; }
  int size() const { return world_->size; }
  deadline limit() const { return deadline::after(world_->options.deadline, world_->options.clock); }

  /// A channel for up to `slots` collectives at a time. All ranks open their channels in the same order.
  thread_channel open(std::size_t slots) { return {world_->outcome, world_->meet(opened_++), rank_, size(), slots}; }

  void fail(std::exception_ptr cause) { world_->outcome->fail(rank_, std::move(cause)); }
  void abandon(std::exception_ptr meanwhile) { world_->outcome->abandon(rank_, std::move(meanwhile)); }

  /// Combines `values` over all ranks, in place; the same bits on every rank. Blocks; throws as `finish()` does.
  template <element T>
  void all_reduce(std::span<T> values, reduce_op op = reduce_op::sum) {
    const extent all = extent_over(values);
    together(buffer_view{dtype_of<T>(), std::span(&all, 1)}, detail::call_of(op), [&](const ticket& t) {
      own_.template reduce<T>(t, op, limit());
      own_.drain(alone_, t, limit());
    });
  }
  template <element T>
  T all_reduce(T value, reduce_op op = reduce_op::sum) {
    all_reduce(std::span<T>(&value, 1), op);
    return value;
  }

  /// Gives every rank the root's values.
  template <element T>
  void broadcast(std::span<T> values, int root = 0) {
    const extent all = extent_over(values);
    broadcast(buffer_view{dtype_of<T>(), std::span(&all, 1)}, root);
  }
  template <element T>
  T broadcast(T value, int root = 0) {
    broadcast(std::span<T>(&value, 1), root);
    return value;
  }
  void broadcast(const buffer_view& values, int root) {
    if (root < 0 || root >= size())
      throw usage_error("broadcast from rank " + std::to_string(root) + " of " + std::to_string(size()), here());
    together(values, detail::call_of_broadcast(root), [&](const ticket& t) { own_.broadcast(t, root, limit()); });
  }

  /// Returns when every rank has called it.
  void barrier() { all_reduce(std::span<std::uint8_t>{}); }

 private:
  static program fused_program() {
    program p;
    p.fused = true;
    return p;
  }
  place here() const { return {.rank = rank_, .step = -1, .bucket = -1, .parameter = {}}; }

  template <class T>
  static extent extent_over(std::span<T> values) {
    return {reinterpret_cast<std::byte*>(values.data()), 0, values.size()};
  }

  template <class F>
  void together(const buffer_view& values, int call, F&& drive) {
    try {
      drive(own_.post(alone_, {.buffer = values, .scale = 1, .weight = 0, .call = call}));
    } catch (...) {
      fail(std::current_exception());
      own_.leave();  // the values and their extents are lent
      throw;
    }
  }

  std::shared_ptr<detail::world> world_;
  int rank_;
  std::size_t opened_ = 0;
  program alone_ = fused_program();
  thread_channel own_;
};

static_assert(transport<thread_communicator>);
static_assert(fused_channel<thread_channel>);

/// N ranks in this process.
class thread_group {
 public:
  explicit thread_group(int size, thread_group_options options = {}) : size_(size), options_(options) {
    if (size < 1) throw usage_error("a thread_group needs at least one rank, not " + std::to_string(size));
    if (options.deadline <= options.deadline.zero()) throw usage_error("the deadline of a thread_group must be longer than nothing");
  }

  int size() const { return size_; }

  /// Calls `f(communicator)` on a thread a rank, and returns when all have returned. Throws what the first failing rank threw.
  template <class F>
  void run(F&& f) {
    using function = std::remove_reference_t<F>;
    const auto call = [](const void* object, thread_communicator& comm) { (*static_cast<function*>(const_cast<void*>(object)))(comm); };
    run_body({std::addressof(f), call});
  }

 private:
  // The user's function without its type: all that starts and joins threads is compiled once, not for each function.
  struct body {
    const void* function;
    void (*call)(const void* function, thread_communicator& comm);
  };

  void run_body(const body& f) const {
    auto world = std::make_shared<detail::world>(size_, options_);
    std::mutex mutex;
    std::condition_variable ended;
    std::vector<bool> running(static_cast<std::size_t>(size_), true);
    std::vector<std::thread> threads;
    auto rank_body = [&](int rank) {
      try {
        thread_communicator comm(world, rank);
        f.call(f.function, comm);
      } catch (...) {
        world->outcome->conclude(rank, std::current_exception());
      }
      world->outcome->leave(rank);
      const std::lock_guard hold(mutex);
      running[static_cast<std::size_t>(rank)] = false;
      ended.notify_one();
    };
    try {
      for (int rank = 0; rank < size_; ++rank) threads.emplace_back(rank_body, rank);
    } catch (...) {  // the system gives no more threads: those that run must not wait for the others
      world->outcome->fail(static_cast<int>(threads.size()), std::current_exception());
    }
    await(*world, mutex, ended, running, threads.size());
    for (auto& thread : threads) thread.join();
    if (world->outcome->failed()) std::rethrow_exception(world->outcome->cause());
  }

  // A thread that no longer answers cannot be ended from outside. Names it, once, when the others have failed and it is a deadline late.
  void await(const detail::world& world, std::mutex& mutex, std::condition_variable& ended, const std::vector<bool>& running,
             std::size_t started) const {
    std::unique_lock hold(mutex);
    auto over = [&] {
      for (std::size_t r = 0; r < started; ++r)
        if (running[r]) return false;
      return true;
    };
    auto limit = std::chrono::steady_clock::time_point::max();
    while (!over()) {
      ended.wait_for(hold, std::chrono::milliseconds(100));
      if (limit == limit.max() && world.outcome->failed())
        limit = std::chrono::steady_clock::now() +
                std::clamp<std::chrono::nanoseconds>(options_.deadline, std::chrono::milliseconds(100), std::chrono::hours(24));
      if (limit == limit.min() || std::chrono::steady_clock::now() < limit) continue;
      for (std::size_t r = 0; r < started; ++r)
        if (running[r]) std::fprintf(stderr, "gradsync: the group has failed, and rank %zu has not ended; waiting for it\n", r);
      limit = limit.min();
    }
  }

  int size_;
  thread_group_options options_;
};

}  // namespace gradsync
