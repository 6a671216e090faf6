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
/// first rank's exception itself. A group can run again after that. What a rank can do in its group, comm/thread_communicator.hpp says.
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>  // run() waits for its threads and can say for whom
#include <cstdio>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <type_traits>

#include "gradsync/comm/thread_communicator.hpp"
#include "gradsync/core/error.hpp"
#include "gradsync/core/series.hpp"

namespace gradsync {

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
    const std::shared_ptr<detail::failure> outcome(new detail::failure(size_, options_.clock));
    const std::shared_ptr<detail::world> world(new detail::world(size_, options_, outcome));
    std::mutex mutex;
    std::condition_variable ended;
    series<bool> running(static_cast<unsigned>(size_), true);  // not negative, as the compiler can tell
    series<std::thread> threads;
    threads.reserve(running.size());  // where that throws, no thread runs yet
    auto end = [&](int rank) {
      world->outcome->leave(rank);
      const std::lock_guard hold(mutex);
      running[static_cast<std::size_t>(rank)] = false;
      ended.notify_one();
    };
    auto rank_body = [&](int rank) {
      try {
        thread_communicator comm(world, rank);
        f.call(f.function, comm);
      } catch (...) {
        const std::exception_ptr cause = std::current_exception();
        world->outcome->conclude(rank, cause);
        end(rank);
        if (!cause) throw;  // pthread_exit() unwinds with what is no exception, and must go on
        return;
      }
      end(rank);
    };
    try {
      for (int rank = 0; rank < size_; ++rank) threads.push_back(std::thread(rank_body, rank));
    } catch (...) {  // the system gives no more threads: those that run must not wait for the others
      world->outcome->fail(static_cast<int>(threads.size()), std::current_exception());
    }
    await(*world, mutex, ended, running, threads.size());
    for (auto& thread : threads) thread.join();
    if (world->outcome->failed()) std::rethrow_exception(world->outcome->cause());
  }

  // A thread that no longer answers cannot be ended from outside. Names it, once, when the others have failed and it is a deadline late.
  void await(const detail::world& world, std::mutex& mutex, std::condition_variable& ended, const series<bool>& running,
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
