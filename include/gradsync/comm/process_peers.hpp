// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// One rank's view of its peers in a channel between processes that share memory: as comm/peers.hpp between threads.
///
/// A process publishes where its buffers are as offsets in its segment; each peer makes pointers of them, once a collective, for its own
/// mapping. So buffers must lie in the segment.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gradsync/comm/blame.hpp"
#include "gradsync/comm/postings.hpp"
#include "gradsync/comm/process_outcome.hpp"
#include "gradsync/comm/transport.hpp"
#include "gradsync/core/aligned_bytes.hpp"
#include "gradsync/core/dtype.hpp"
#include "gradsync/core/error.hpp"
#include "gradsync/core/series.hpp"

namespace gradsync::detail {

class process_peers : public postings<process_peers, flag_scope::processes> {
 public:
  /// `channel`: its lane in all members' segments.
  process_peers(std::shared_ptr<const process_outcome> outcome, int channel)
      : postings(outcome->rank(), outcome->size()), outcome_(std::move(outcome)) {
    for (int r = 0; r < size(); ++r) {
      segments_.push_back(outcome_->job().segments[static_cast<std::size_t>(outcome_->whole(r))]);
      lanes_.push_back(&outcome_->job().header(outcome_->whole(r)).lanes[channel]);
      set_flags(r, *lanes_.back());
    }
  }
  process_peers(process_peers&&) = default;
  process_peers& operator=(process_peers&&) = default;
  ~process_peers() {
    if (ring_.size() > 0) outcome_->job().kept.push_back(std::move(ring_));  // Σw may be read once more
  }

  bool failed() const { return outcome_->failed(); }
  shared_lane& mine() const { return lane_of(rank()); }
  [[noreturn]] void report() const { outcome_->report(); }

  /// After a failure: waits until no peer is in this rank's memory; not for the dead, and not longer than a deadline, as the pages of one
  /// that was stopped stay there for it.
  void leave() const {
    const auto since = std::chrono::steady_clock::now();
    for (int peer = 0; peer < size(); ++peer)
      while (peer != rank() && flags_of(peer).inside.load(std::memory_order_seq_cst) != 0 && !outcome_->died(outcome_->whole(peer)) &&
             std::chrono::steady_clock::now() - since < outcome_->job().limit)
        std::this_thread::yield();
  }

  void make_slots(std::size_t slots) {
    scratch_.resize(slots / 2);
    listed_.resize(slots);
    known_lists_.resize(slots * static_cast<std::size_t>(size()));
    ring_ = outcome_->job().heap->allocate(slots * sizeof(slot_type));
    std::uninitialized_value_construct_n(reinterpret_cast<slot_type*>(ring_.data()), slots);
    mine().slots = slots;
    mine().slots_at = own().offset(ring_.data());
    open();
  }

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

 private:
  friend postings;

  shared_lane& lane_of(int rank) const { return *lanes_[static_cast<std::size_t>(rank)]; }
  slot_type* slots_of(int rank) const { return reinterpret_cast<slot_type*>(reach(rank, lane_of(rank).slots_at)); }
  std::size_t slots_in(int rank) const { return lane_of(rank).slots; }

  location published(const extent& e, dtype type) const {
    if (e.count == 0) return 0;
    if (!own().holds(e.data, e.count * size_of(type)))
      throw usage_error("a buffer lies outside the memory that the processes share; use layout::packed, or memory of allocate()", here());
    return own().offset(e.data);
  }
  location listed(const ticket& t, series_view<extent> all, dtype type) {
    const std::size_t bytes = all.size() * sizeof(shared_extent);
    aligned_bytes& list = listed_[t.sequence & (listed_.size() - 1)];
    if (list.size() < bytes) list = outcome_->job().heap->allocate(bytes);
    for (std::size_t i = 0; i < all.size(); ++i)
      reinterpret_cast<shared_extent*>(list.data())[i] = {published(all[i], type), all[i].first, all[i].count};
    return bytes > 0 ? own().offset(list.data()) : 0;
  }
  std::byte* reach(int peer, location at) const { return segments_[static_cast<std::size_t>(peer)]->data() + at; }
  series_view<extent> list_of(int peer, const ticket& t, const slot_type& s) {
    series<extent>& list = known_lists_[static_cast<std::size_t>(peer) * listed_.size() + (t.sequence & (listed_.size() - 1))];
    list.resize(s.extents);
    for (std::size_t i = 0; i < list.size(); ++i) {
      const shared_extent& e = reinterpret_cast<const shared_extent*>(reach(peer, s.at))[i];
      list[i] = {reach(peer, e.at), e.first, e.count};
    }
    return list;
  }

  const shared_segment& own() const { return *segments_[static_cast<std::size_t>(rank())]; }
  std::string name(int peer) const { return outcome_->name(peer); }
  place here() const { return outcome_->here(); }

  bool wait(shared_flag& counter, std::uint32_t target, int peer, const deadline& until) const {
    if (counter.reached(target)) return true;
    bool told = false;
    const auto hopeful = [&] {
      const bool late = outcome_->passed(until);
      if (!until.polling()) outcome_->waits_for(peer), told = true;
      const bool left = outcome_->gone(peer), died = !until.polling() && outcome_->died(outcome_->whole(peer));
      const bool in_vain = !counter.reached(target);
      if (outcome_->failed()) outcome_->report();  // looked at last: who left because it failed has said so before
      if (left && in_vain) throw_gone(name(peer), here());
      if (died && in_vain) outcome_->throw_died(peer);
      if (late) blame(peer, until.limit);
      return true;
    };
    if (until.polling()) return hopeful() && counter.reached(target);
    counter.wait(target, hopeful);
    if (told) outcome_->waits_for(-1);
    return true;
  }

  [[noreturn]] void blame(int peer, std::chrono::nanoseconds limit) const {
    const auto [name, in_turn] = outcome_->late(peer);
    if (outcome_->failed()) outcome_->report();
    throw_late(name, limit, here(), in_turn ? waits_in_turn : "");
  }

  std::shared_ptr<const process_outcome> outcome_;
  std::vector<std::shared_ptr<const shared_segment>> segments_;  // by rank
  std::vector<shared_lane*> lanes_;                              // by rank
  std::vector<aligned_bytes> scratch_;                           // for half as many collectives as there are slots
  std::vector<aligned_bytes> listed_;                            // by slot: extents, where they are several
  series<series<extent>> known_lists_;                           // by rank and slot: the same of peers
  aligned_bytes ring_;                                           // this rank's slots
};

}  // namespace gradsync::detail
