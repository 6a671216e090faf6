// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// One rank's view of its peers in a channel between threads: what they have posted, how far they are, and what becomes of a wait for them.
///
/// A wait ends in one of four ways: the peer comes; the group has failed (`transport_error`); the peer has returned from its function
/// (`transport_error`); the deadline passes (`timeout_error`, which blames the rank that all others wait for in the end). A poll never
/// waits.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>

#include "gradsync/comm/blame.hpp"
#include "gradsync/comm/call.hpp"
#include "gradsync/comm/crossing.hpp"
#include "gradsync/comm/failure.hpp"
#include "gradsync/comm/flag.hpp"
#include "gradsync/comm/program.hpp"
#include "gradsync/comm/transport.hpp"
#include "gradsync/core/aligned_bytes.hpp"
#include "gradsync/core/arithmetic.hpp"
#include "gradsync/core/error.hpp"

namespace gradsync::detail {

class peers {
 public:
  peers(std::shared_ptr<failure> outcome, std::shared_ptr<crossing> shared, int rank, int size)
      : failure_(std::move(outcome)), shared_(std::move(shared)), rank_(rank), size_(size), pauses_(failure_->crowded() ? 1 : 100) {}

  int rank() const { return rank_; }
  int size() const { return size_; }
  bool failed() const { return failure_->failed(); }
  [[noreturn]] void report() const { failure_->report(rank_); }

  lane& mine() const { return lane_of(rank_); }

  /// Room for so many collectives, a power of two, the last half of which may be under way.
  void make_slots(std::size_t slots) {
    mine().posts.resize(slots);
    mine().scratch.resize(slots / 2);
  }

  /// Tells all peers what this rank lends.
  void post(const ticket& t, const posting& own) {
    mine().posts[slot(mine(), t)] = own;
    mine().posted.raise(t.sequence + 1);
  }

  /// Once all have posted: nobody reads any more where this rank posts next, so its cache may take that line from theirs meanwhile.
  void expect_next(const ticket& t) const { take_line(&posted_by(rank_, {.sequence = t.sequence + 1})); }

  /// Tells all peers that this rank is through.
  void pass_on(std::uint32_t tick) { mine().progress.raise(tick); }

  /// Memory beside the buffer that peers may read. Of one collective's slot nobody reads it any more when the next one there is posted.
  std::byte* scratch(const ticket& t, std::size_t bytes) {
    aligned_bytes& memory = mine().scratch[t.sequence % mine().scratch.size()];
    if (memory.size() < bytes) memory = aligned_bytes(bytes);
    return memory.data();
  }
  std::size_t scratch_bytes() const {
    std::size_t sum = 0;
    for (const aligned_bytes& one : mine().scratch) sum += one.size();
    return sum;
  }

  const posting& posted_by(int rank, const ticket& t) const { return lane_of(rank).posts[slot(lane_of(rank), t)]; }
  const buffer_view& lent(int rank, const ticket& t) const { return posted_by(rank, t).lent.buffer; }
  const buffer_view& lent(const ticket& t) const { return lent(rank_, t); }

  /// Adds the ranks' weights in the canonical tree. They can all be read as soon as some chunk holds every rank's part.
  double total_weight(const ticket& t) const { return weight_of(t, 0, size_); }

  /// Whether `peer` has posted, of the same length and type as this rank.
  bool posted(int peer, const ticket& t, const deadline& until) const {
    if (!wait(lane_of(peer).posted, t.sequence + 1, peer, until)) return false;
    const posting &theirs = posted_by(peer, t), &ours = posted_by(rank_, t);
    const auto asked = [](const posting& p) { return request{p.lent.call, p.count, p.lent.buffer.type}; };
    if (asked(theirs) != asked(ours)) check_alike(asked(ours), asked(theirs), failure_->name(peer), failure_->at(rank_));
    return true;
  }

  /// Whether `peer` has ever posted.
  bool has_posted(int peer) const { return lane_of(peer).posted.value() != 0; }

  /// Whether `peer` has raised its progress so far.
  bool passed(int peer, std::uint32_t target, const deadline& until) const { return wait(lane_of(peer).progress, target, peer, until); }

  /// After a failure: waits until no peer is in this rank's memory. May outlast a deadline, and then says for whom it waits.
  void leave() const {
    const auto since = failure_->now();
    bool told = false;
    for (int peer = 0; peer < size_; ++peer)
      while (peer != rank_ && lane_of(peer).inside.load(std::memory_order_seq_cst) != 0) {
        std::this_thread::yield();
        if (told || failure_->now() - since < std::chrono::seconds(10)) continue;
        std::fprintf(stderr, "gradsync[%s]: waiting for %s to leave this rank's gradients before they are destroyed\n",
                     failure_->name(rank_).c_str(), failure_->name(peer).c_str());
        told = true;
      }
  }

 private:
  static void take_line([[maybe_unused]] const void* at) {
#if defined(__x86_64__)
    asm volatile("prefetchw (%0)" : : "r"(at));
#endif
  }

  static std::size_t slot(const lane& l, const ticket& t) { return t.sequence & (l.posts.size() - 1); }
  lane& lane_of(int rank) const { return shared_->lanes[static_cast<std::size_t>(rank)]; }

  double weight_of(const ticket& t, int first, int count) const {
    if (count == 1) return posted_by(first, t).lent.weight;
    const int left = left_terms(count);
    return weight_of(t, first, left) + weight_of(t, first + left, count - left);
  }

  bool wait(flag& counter, std::uint32_t target, int peer, const deadline& until) const {
    if (counter.reached(target)) return true;
    failure::long_wait asleep(*failure_, rank_, peer, counter, target);
    const auto hopeful = [&] {
      if (!until.polling()) asleep.list();
      const bool left = failure_->gone(peer) && !counter.reached(target);
      if (failure_->failed()) failure_->report(rank_);  // looked at last: who left because it failed has said so before
      if (left) throw_gone(failure_->name(peer), failure_->at(rank_));
      if (failure_->passed(until)) blame(peer, until.limit);
      return true;
    };
    if (until.polling()) return hopeful() && counter.reached(target);
    counter.wait(target, hopeful, pauses_);
    return true;
  }

  [[noreturn]] void blame(int peer, std::chrono::nanoseconds limit) const {
    const auto [name, in_turn] = failure_->late(rank_, peer);
    if (failure_->failed()) failure_->report(rank_);  // the late one may be on its way already, to learn of that
    throw_late(name, limit, failure_->at(rank_), in_turn ? waits_in_turn : "");
  }

  std::shared_ptr<failure> failure_;
  std::shared_ptr<crossing> shared_;
  int rank_, size_, pauses_;
};

}  // namespace gradsync::detail
