// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// One process's place in a group of processes that share memory, or in a part of it: what the function given to `process_group::run` gets.
///
/// It does what comm/thread_communicator.hpp does, over the same channel. What its ranks sum must lie in memory that they share:
/// `allocate()` gives it. layout::packed, the default, copies there; with layout::adopted gradients live there and nothing is copied.
/// A user's own small values are copied there and back. Channels are agreed upon when they are opened, so `open` waits for all ranks.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "gradsync/comm/call.hpp"
#include "gradsync/comm/own_values.hpp"
#include "gradsync/comm/process_peers.hpp"
#include "gradsync/comm/thread_channel.hpp"
#include "gradsync/comm/transport.hpp"
#include "gradsync/core/aligned_bytes.hpp"
#include "gradsync/core/deadline.hpp"
#include "gradsync/core/dtype.hpp"
#include "gradsync/core/error.hpp"
#include "gradsync/core/host_stream.hpp"
#include "gradsync/core/memory_space.hpp"

namespace gradsync {

/// Between processes of one host.
using process_channel = peer_channel<detail::process_peers>;

/// Used by one thread only; a channel that it opened may be driven by another. It may be moved while nothing refers to it.
class process_communicator : public own_values<process_communicator> {
 public:
  static constexpr bool peer_addressable = false;  ///< peers reach shared memory only
  static constexpr memory_space space = memory_space::host;

  /// `channel`: for the group's own calls; the same on all ranks, and used for nothing else.
  process_communicator(std::shared_ptr<detail::process_outcome> outcome, int channel)
      : outcome_(std::move(outcome)), rank_(outcome_->rank()), own_(detail::process_peers(outcome_, channel), 1) {}
  process_communicator(process_communicator&&) = default;
  process_communicator& operator=(process_communicator&&) = default;

  int rank() const { return rank_; }
  int size() const { return outcome_->size(); }
  place place_of(int rank) const { return outcome_->at(rank); }
  deadline limit() const { return deadline::within(outcome_->job().limit); }
  std::chrono::steady_clock::time_point now() const { return outcome_->now(); }

  /// Shared memory. Pages that were never written to take none.
  aligned_bytes allocate(std::size_t bytes) const { return outcome_->job().heap->allocate(bytes); }
  host_stream::handle compute_stream() const { return {}; }

  /// A channel for up to `slots` collectives at a time. All ranks open their channels, and split, in the same order.
  process_channel open(std::size_t slots) {
    const int channel = take_channel(all_reduce(outcome_->job().next_channel, reduce_op::max));
    return {detail::process_peers(outcome_, channel), slots};
  }

  /// Ranks that give the same color become a group of their own, numbered by key, then by their rank here. All ranks call it.
  process_communicator split(int color, int key = 0) {
    const split_part chosen = choose(color, key, outcome_->job().next_channel);
    const int channel = take_channel(chosen.number);
    std::vector<int> members;
    for (const int rank : chosen.members) members.push_back(outcome_->whole(rank));
    return {std::make_shared<detail::process_outcome>(outcome_->shared_job(), std::move(members)), channel};
  }

  bool failed() const { return outcome_->failed(); }
  void check() const {
    if (failed()) outcome_->report();
  }
  void fail(std::exception_ptr cause) { outcome_->fail(cause); }
  void abandon(std::exception_ptr meanwhile) { outcome_->abandon(meanwhile); }

 private:
  friend own_values<process_communicator>;
  static constexpr std::size_t most_staged = 1 << 20;  // bytes

  static program fused_program() {
    program p;
    p.fused = true;
    return p;
  }

  // The first that is free on all ranks.
  int take_channel(int agreed) {
    if (agreed >= detail::shared_header::most_channels)
      throw usage_error(
          "the processes have opened all " + std::to_string(detail::shared_header::most_channels) + " channels that a run has",
          place_of(rank_));
    outcome_->job().next_channel = agreed + 1;
    return agreed;
  }

  template <class T>
  void combine(std::span<T> values, reduce_op op, int call) {
    const extent all = extent_over(values);
    by_pieces(buffer_view{dtype_of<T>(), std::span(&all, 1)}, call, [&](const ticket& t) {
      own_.template reduce<T>(t, op, limit());
      own_.drain(alone_, t, limit());
    });
  }

  void spread(const buffer_view& values, int root) {
    by_pieces(values, detail::call_of_broadcast(root), [&](const ticket& t) { own_.broadcast(t, root, limit()); });
  }

  // The values are private memory: piece by piece they are copied to shared memory, and back when `drive` is through with them.
  template <class F>
  void by_pieces(const buffer_view& values, int call, F&& drive) {
    try {
      const std::size_t all = values.count(), piece = most_staged / size_of(values.type);
      std::size_t first = 0;
      do {
        const std::size_t count = std::min(piece, all - first), bytes = count * size_of(values.type);
        if (staged_.size() < bytes) staged_ = allocate(bytes);
        const extent lent{staged_.data(), 0, count};
        const auto each = [&](auto&& copy) { for_each_byte_run(values, first, count, copy); };
        each([&](std::byte* own, std::size_t at, std::size_t n) { std::memcpy(staged_.data() + at, own, n); });
        drive(own_.post(alone_, {.buffer = {values.type, std::span(&lent, 1)}, .scale = 1, .weight = 0, .call = call}));
        each([&](std::byte* own, std::size_t at, std::size_t n) { std::memcpy(own, staged_.data() + at, n); });
        first += count;
      } while (first < all);
    } catch (...) {
      fail(std::current_exception());
      own_.leave();
      throw;
    }
  }

  // Calls f(memory, its offset in bytes, bytes) for the stretches of `count` elements from `first` on.
  template <class F>
  static void for_each_byte_run(const buffer_view& values, std::size_t first, std::size_t count, F&& f) {
    const std::size_t size = size_of(values.type);
    for (const extent& e : values.extents) {
      const std::size_t begin = std::max(e.first, first), end = std::min(e.first + e.count, first + count);
      if (begin < end) f(e.data + (begin - e.first) * size, (begin - first) * size, (end - begin) * size);
    }
  }

  std::shared_ptr<detail::process_outcome> outcome_;
  int rank_;
  aligned_bytes staged_;
  program alone_ = fused_program();
  process_channel own_;
};

static_assert(transport<process_communicator>);
static_assert(fused_channel<process_channel>);

}  // namespace gradsync
