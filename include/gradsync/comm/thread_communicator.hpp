// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// One rank's place in a group of threads, or in a part of it: what the function given to `thread_group::run` gets.
///
///     gradsync::thread_group{6}.run([](auto& comm) {
///       auto row = comm.split(comm.rank() / 3);        // two groups of three: 0 1 2 and 3 4 5
///       auto column = comm.split(comm.rank() % 3);     // three groups of two: 0 3, 1 4 and 2 5
///       gradsync::synchronizer sync{net, row};         // in each row the mean of its own
///     });
///
/// A part is a communicator like any other; it can be split again. Parts are counted apart, but live and die together: whoever fails in one
/// of them ends all waits of the run, with one root cause. Where a rank has another number in the whole group, errors say both:
/// `rank 1 (rank 4 of the whole group)`. Clock and deadline are those of the whole group.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <span>
#include <utility>

#include "gradsync/comm/own_values.hpp"
#include "gradsync/comm/thread_channel.hpp"
#include "gradsync/comm/transport.hpp"
#include "gradsync/core/aligned_bytes.hpp"
#include "gradsync/core/deadline.hpp"
#include "gradsync/core/dtype.hpp"
#include "gradsync/core/error.hpp"
#include "gradsync/core/host_stream.hpp"
#include "gradsync/core/memory_space.hpp"
#include "gradsync/core/series.hpp"

namespace gradsync {

struct thread_group_options {
  std::chrono::nanoseconds deadline = std::chrono::minutes(10);  ///< how late a peer may be
  clock_source clock = std::chrono::steady_clock::now;           ///< what reads the time, for tests
};

namespace detail {

// Where ranks get what they share: the first one that comes makes it, and when the last one has it, it is theirs alone. (Made by `new`, not
// by std::make_shared, of which a compiler that does not optimize makes some thirty functions for each type.)
template <class T>
class meeting_point {
 public:
  template <class Make>
  std::shared_ptr<T> meet(std::size_t number, int color, int ranks, Make&& make) {
    const std::lock_guard hold(mutex_);
    std::size_t i = 0;
    while (i < open_.size() && (open_[i].number != number || open_[i].color != color)) ++i;
    if (i == open_.size()) open_.push_back({number, color, ranks, make()});
    const std::shared_ptr<T> shared = open_[i].shared;
    if (--open_[i].missing == 0) {
      std::swap(open_[i], open_.back());
      open_.pop_back();
    }
    return shared;
  }

 private:
  struct meeting {
    std::size_t number = 0;  // of the things that a rank of this group has met for; the same on all ranks
    int color = 0, missing = 0;
    std::shared_ptr<T> shared;
  };
  std::mutex mutex_;
  series<meeting> open_;
};

// All that the ranks of a group share, or those of a part of it.
struct world {
  world(int ranks, const thread_group_options& chosen, std::shared_ptr<failure> shared_outcome)
      : size(ranks), options(chosen), outcome(std::move(shared_outcome)) {}

  int size;
  thread_group_options options;
  std::shared_ptr<failure> outcome;
  meeting_point<crossing> crossings;
  meeting_point<world> parts;
};

}  // namespace detail

/// Used by its rank's thread only; a channel that it opened may be driven by another. It may be moved while nothing refers to it.
class thread_communicator : public own_values<thread_communicator> {
 public:
  static constexpr bool peer_addressable = true;  ///< peers read and write this rank's memory
  static constexpr memory_space space = memory_space::host;

  thread_communicator(std::shared_ptr<detail::world> world, int rank) : world_(std::move(world)), rank_(rank), own_(open(1)) {}
  thread_communicator(thread_communicator&&) = default;
  thread_communicator& operator=(thread_communicator&&) = default;

  int rank() const { return rank_; }
  int size() const { return world_->size; }
  /// A rank of this group, for errors; in a part of a group with its number there.
  place place_of(int rank) const { return world_->outcome->at(rank); }
  deadline limit() const { return deadline::within(world_->options.deadline); }
  std::chrono::steady_clock::time_point now() const { return world_->outcome->now(); }

  aligned_bytes allocate(std::size_t bytes) const { return aligned_bytes(bytes); }
  host_stream::handle compute_stream() const { return {}; }

  /// A channel for up to `slots` collectives at a time. All ranks open their channels, and split, in the same order.
  thread_channel open(std::size_t slots) {
    auto crossing =
        world_->crossings.meet(meetings_++, 0, size(), [&] { return std::shared_ptr<detail::crossing>(new detail::crossing(size())); });
    return {world_->outcome, std::move(crossing), rank_, size(), slots};
  }

  /// For channels of another kind between the same threads: this rank's view of its peers, and what all ranks have in common; a `Crossing`
  /// is a detail::crossing with more in it. Counts as an `open`.
  template <class Crossing>
  std::pair<detail::peers, std::shared_ptr<Crossing>> share() {
    auto shared = world_->crossings.meet(meetings_++, 0, size(),
                                         [&]() -> std::shared_ptr<detail::crossing> { return std::make_shared<Crossing>(size()); });
    return {detail::peers(world_->outcome, shared, rank_, size()), std::static_pointer_cast<Crossing>(shared)};
  }

  /// Ranks that give the same color become a group of their own, numbered by key, then by their rank here. All ranks call it.
  thread_communicator split(int color, int key = 0) {
    const split_part chosen = choose(color, key, 0);
    const int count = static_cast<int>(chosen.members.size());
    auto shared = world_->parts.meet(meetings_++, color, count, [&] {
      const std::shared_ptr<detail::failure> outcome(new detail::failure(*world_->outcome, chosen.members));
      return std::shared_ptr<detail::world>(new detail::world(count, world_->options, outcome));
    });
    return {std::move(shared), chosen.rank};
  }

  /// Whether the group has failed, of which a rank learns at its next call.
  bool failed() const { return world_->outcome->failed(); }
  /// Throws, if the group has failed, what the next call would throw.
  void check() const {
    if (failed()) world_->outcome->report(rank_);
  }
  /// Whether all other ranks of the whole group that have not returned sleep, at this moment, because a peer has not come.
  bool others_wait() const { return world_->outcome->others_wait(rank_); }

  /// To be said of a clock of one's own (thread_group_options) that has moved: whoever waits looks at it now, else within 20 ms.
  void clock_moved() const { world_->outcome->wake(); }

  void fail(std::exception_ptr cause) { world_->outcome->fail(rank_, std::move(cause)); }
  void abandon(std::exception_ptr meanwhile) { world_->outcome->abandon(rank_, std::move(meanwhile)); }

 private:
  friend own_values<thread_communicator>;

  static program fused_program() {
    program p;
    p.fused = true;
    return p;
  }

  template <class T>
  void combine(std::span<T> values, reduce_op op, int call) {
    const extent all = extent_over(values);
    together(buffer_view{dtype_of<T>(), {&all, 1}}, call, [&](const ticket& t) {
      own_.template reduce<T>(t, op, limit());
      own_.drain(alone_, t, limit());
    });
  }

  void spread(const buffer_view& values, int root) {
    together(values, detail::call_of_broadcast(root), [&](const ticket& t) { own_.broadcast(t, root, limit()); });
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
  std::size_t meetings_ = 0;
  program alone_ = fused_program();
  thread_channel own_;
};

static_assert(transport<thread_communicator>);
static_assert(fused_channel<thread_channel>);

}  // namespace gradsync
