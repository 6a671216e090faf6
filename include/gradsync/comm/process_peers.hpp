// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// One rank's view of its peers in a channel between processes that share memory: as comm/peers.hpp between threads.
///
/// A process publishes where its buffers are as offsets in its segment; each peer makes pointers of them, once a collective, for its own
/// mapping. So buffers must lie in the segment.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "gradsync/comm/blame.hpp"
#include "gradsync/comm/call.hpp"
#include "gradsync/comm/crossing.hpp"
#include "gradsync/comm/process_outcome.hpp"
#include "gradsync/comm/transport.hpp"
#include "gradsync/core/aligned_bytes.hpp"
#include "gradsync/core/arithmetic.hpp"
#include "gradsync/core/error.hpp"

namespace gradsync::detail {

class process_peers {
 public:
  /// `channel`: its lane in all members' segments.
  process_peers(std::shared_ptr<const process_outcome> outcome, int channel)
      : outcome_(std::move(outcome)), rank_(outcome_->rank()), size_(outcome_->size()) {
    for (int r = 0; r < size_; ++r) {
      segments_.push_back(outcome_->job().segments[static_cast<std::size_t>(outcome_->whole(r))]);
      lanes_.push_back(&outcome_->job().header(outcome_->whole(r)).lanes[channel]);
    }
  }
  process_peers(process_peers&&) = default;
  process_peers& operator=(process_peers&&) = default;
  ~process_peers() {
    if (ring_.size() > 0) outcome_->job().kept.push_back(std::move(ring_));  // Σw may be read once more
  }

  int rank() const { return rank_; }
  int size() const { return size_; }
  bool failed() const { return outcome_->failed(); }
  shared_lane& mine() const { return lane_of(rank_); }
  [[noreturn]] void report() const { outcome_->report(); }

  /// After a failure: waits until no peer is in this rank's memory; not for the dead, and not longer than a deadline, as the pages of one
  /// that was stopped stay there for it.
  void leave() const {
    const auto since = std::chrono::steady_clock::now();
    for (int peer = 0; peer < size_; ++peer)
      while (peer != rank_ && lane_of(peer).inside.load(std::memory_order_seq_cst) != 0 && !outcome_->died(outcome_->whole(peer)) &&
             std::chrono::steady_clock::now() - since < outcome_->job().limit)
        std::this_thread::yield();
  }

  void make_slots(std::size_t slots) {
    slots_ = slots;
    known_.resize(slots * static_cast<std::size_t>(size_));
    scratch_.resize(slots / 2);
    listed_.resize(slots);
    ring_ = outcome_->job().heap->allocate(slots * sizeof(shared_posting));
    std::uninitialized_fill_n(posts(), slots, shared_posting{});
    mine().slots = slots;
    mine().posts_at = offset(ring_.data());
  }

  void post(const ticket& t, const posting& own) {
    const std::size_t slot = t.sequence % slots_;
    const std::span<const extent> extents = own.lent.buffer.extents;
    known(rank_, t) = {.collective = t.sequence + 1, .what = own, .extents = {}};
    shared_posting& out = posts()[slot];
    out = {.call = own.lent.call,
           .type = own.lent.buffer.type,
           .scale = own.lent.scale,
           .weight = own.lent.weight,
           .count = own.count,
           .scratch = own.scratch.count > 0 ? published(own.scratch, out.type) : shared_extent{},
           .extents = extents.size()};
    shared_extent* list = out.list;
    if (extents.size() > shared_posting::few) {
      list = list_of(slot, extents.size());
      out.listed_at = offset(reinterpret_cast<std::byte*>(list));
    }
    for (std::size_t i = 0; i < extents.size(); ++i) list[i] = published(extents[i], out.type);
    mine().posted.raise(t.sequence + 1);
  }

  void pass_on(std::uint32_t tick) { mine().progress.raise(tick); }

  std::byte* scratch(const ticket& t, std::size_t bytes) {
    aligned_bytes& memory = scratch_[t.sequence % scratch_.size()];
    if (memory.size() < bytes) memory = outcome_->job().heap->allocate(bytes);
    return memory.data();
  }
  std::size_t scratch_bytes() const {
    std::size_t sum = 0;
    for (const aligned_bytes& one : scratch_) sum += one.size();
    return sum;
  }

  /// Of this rank, or of a peer that `posted` has found.
  const posting& posted_by(int rank, const ticket& t) const { return known(rank, t).what; }
  const buffer_view& lent(int rank, const ticket& t) const { return posted_by(rank, t).lent.buffer; }
  const buffer_view& lent(const ticket& t) const { return lent(rank_, t); }
  double total_weight(const ticket& t) const { return weight_of(t, 0, size_); }

  bool posted(int peer, const ticket& t, const deadline& until) {
    if (!wait(lane_of(peer).posted, t.sequence + 1, peer, until)) return false;
    if (known(peer, t).collective == t.sequence + 1) return true;
    const shared_posting& theirs = posting_of(peer, t);
    const posting& ours = known(rank_, t).what;
    const request asked{theirs.call, theirs.count, theirs.type}, mine{ours.lent.call, ours.count, ours.lent.buffer.type};
    if (asked != mine) check_alike(mine, asked, outcome_->name(peer), outcome_->here());
    learn(peer, t, theirs);
    return true;
  }

  bool passed(int peer, std::uint32_t target, const deadline& until) const { return wait(lane_of(peer).progress, target, peer, until); }

 private:
  // A posting, with this process's pointers.
  struct known_posting {
    std::uint32_t collective = 0;  // its sequence and 1; 0: none yet
    posting what{};
    std::vector<extent> extents{};
  };

  shared_lane& lane_of(int rank) const { return *lanes_[static_cast<std::size_t>(rank)]; }
  shared_posting* posts() const { return reinterpret_cast<shared_posting*>(ring_.data()); }
  std::size_t offset(const std::byte* at) const { return segments_[static_cast<std::size_t>(rank_)]->offset(at); }
  const known_posting& known(int rank, const ticket& t) const {
    return known_[static_cast<std::size_t>(rank) * slots_ + t.sequence % slots_];
  }
  known_posting& known(int rank, const ticket& t) { return known_[static_cast<std::size_t>(rank) * slots_ + t.sequence % slots_]; }

  const shared_posting& posting_of(int rank, const ticket& t) const {
    const auto* posts = reinterpret_cast<const shared_posting*>(segments_[static_cast<std::size_t>(rank)]->data() + lane_of(rank).posts_at);
    return posts[t.sequence % lane_of(rank).slots];
  }

  shared_extent published(const extent& e, dtype type) const {
    if (e.count > 0 && !segments_[static_cast<std::size_t>(rank_)]->holds(e.data, e.count * size_of(type)))
      throw usage_error("a buffer lies outside the memory that the processes share; use layout::packed, or memory of allocate()",
                        outcome_->here());
    return {e.count > 0 ? offset(e.data) : 0, e.first, e.count};
  }

  shared_extent* list_of(std::size_t slot, std::size_t extents) {
    const std::size_t bytes = extents * sizeof(shared_extent);
    aligned_bytes& list = listed_[slot];
    if (list.size() < bytes) list = outcome_->job().heap->allocate(bytes);
    return reinterpret_cast<shared_extent*>(list.data());
  }

  void learn(int peer, const ticket& t, const shared_posting& theirs) {
    std::byte* const base = segments_[static_cast<std::size_t>(peer)]->data();
    const auto pointed = [&](const shared_extent& e) { return extent{base + e.offset, e.first, e.count}; };
    const auto* list = theirs.extents > shared_posting::few ? reinterpret_cast<const shared_extent*>(base + theirs.listed_at) : theirs.list;
    known_posting& k = known(peer, t);
    k.extents.clear();
    for (std::size_t i = 0; i < theirs.extents; ++i) k.extents.push_back(pointed(list[i]));
    k.what.lent.buffer = {theirs.type, k.extents};
    k.what.lent.scale = theirs.scale;
    k.what.lent.weight = theirs.weight;
    k.what.lent.call = theirs.call;
    k.what.count = theirs.count;
    k.what.scratch = pointed(theirs.scratch);
    k.collective = t.sequence + 1;
  }

  double weight_of(const ticket& t, int first, int count) const {
    if (count == 1) return posting_of(first, t).weight;
    const int left = left_terms(count);
    return weight_of(t, first, left) + weight_of(t, first + left, count - left);
  }

  bool wait(shared_flag& counter, std::uint32_t target, int peer, const deadline& until) const {
    if (counter.reached(target)) return true;
    const auto hopeful = [&] {
      if (!until.polling()) outcome_->waits_for(peer);
      const bool left = outcome_->gone(peer), died = !until.polling() && outcome_->died(outcome_->whole(peer));
      const bool in_vain = !counter.reached(target);
      if (outcome_->failed()) outcome_->report();  // looked at last: who left because it failed has said so before
      if (left && in_vain) throw_gone(outcome_->name(peer), outcome_->here());
      if (died && in_vain) outcome_->throw_died(peer);
      if (outcome_->passed(until)) blame(peer, until.limit);
      return true;
    };
    if (until.polling()) return hopeful() && counter.reached(target);
    counter.wait(target, hopeful);
    outcome_->waits_for(-1);
    return true;
  }

  [[noreturn]] void blame(int peer, std::chrono::nanoseconds limit) const {
    const auto [name, in_turn] = outcome_->late(peer);
    if (outcome_->failed()) outcome_->report();
    throw_late(name, limit, outcome_->here(), in_turn ? waits_in_turn : "");
  }

  std::shared_ptr<const process_outcome> outcome_;
  int rank_, size_;
  std::vector<std::shared_ptr<const shared_segment>> segments_;  // by rank
  std::vector<shared_lane*> lanes_;                              // by rank
  std::size_t slots_ = 0;
  std::vector<known_posting> known_;    // by rank and slot
  std::vector<aligned_bytes> scratch_;  // for half as many collectives as there are slots
  std::vector<aligned_bytes> listed_;   // by slot: extents, where they are many
  aligned_bytes ring_;                  // this rank's postings, by slot
};

}  // namespace gradsync::detail
