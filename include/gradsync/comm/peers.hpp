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
#include <string>
#include <thread>
#include <utility>

#include "gradsync/comm/blame.hpp"
#include "gradsync/comm/crossing.hpp"
#include "gradsync/comm/failure.hpp"
#include "gradsync/comm/flag.hpp"
#include "gradsync/comm/postings.hpp"
#include "gradsync/comm/transport.hpp"
#include "gradsync/core/aligned_bytes.hpp"
#include "gradsync/core/dtype.hpp"
#include "gradsync/core/error.hpp"
#include "gradsync/core/series.hpp"

namespace gradsync::detail {

class peers : public postings<peers, flag_scope::threads> {
 public:
  peers(std::shared_ptr<failure> outcome, std::shared_ptr<crossing> shared, int rank, int size)
      : postings(rank, size), failure_(std::move(outcome)), shared_(std::move(shared)), pauses_(failure_->crowded() ? 1 : 100) {
    for (int r = 0; r < size; ++r) set_flags(r, lane_of(r));
  }
  peers(peers&&) = default;
  peers& operator=(peers&&) = default;

  bool failed() const { return failure_->failed(); }
  [[noreturn]] void report() const { failure_->report(rank()); }

  lane& mine() const { return lane_of(rank()); }

  /// Room for so many collectives, a power of two, the last half of which may be under way.
  void make_slots(std::size_t slots) {
    mine().slots = series<slot_type>(slots);
    mine().scratch = series<aligned_bytes>(slots / 2);
    open();
  }

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

  /// After a failure: waits until no peer is in this rank's memory. May outlast a deadline, and then says for whom it waits.
  void leave() const {
    const auto since = failure_->now();
    bool told = false;
    for (int peer = 0; peer < size(); ++peer)
      while (peer != rank() && lane_of(peer).inside.load(std::memory_order_seq_cst) != 0) {
        std::this_thread::yield();
        if (told || failure_->now() - since < std::chrono::seconds(10)) continue;
        std::fprintf(stderr, "gradsync[%s]: waiting for %s to leave this rank's gradients before they are destroyed\n",
                     failure_->name(rank()).c_str(), name(peer).c_str());
        told = true;
      }
  }

 private:
  friend postings;

  lane& lane_of(int rank) const { return shared_->lanes[static_cast<std::size_t>(rank)]; }
  slot_type* slots_of(int rank) const { return lane_of(rank).slots.data(); }
  std::size_t slots_in(int rank) const { return lane_of(rank).slots.size(); }

  static location published(const extent& e, dtype) { return reinterpret_cast<location>(e.data); }
  static location listed(const ticket&, series_view<extent> all, dtype) { return reinterpret_cast<location>(all.data()); }
  static std::byte* reach(int, location at) { return reinterpret_cast<std::byte*>(at); }
  static series_view<extent> list_of(int, const ticket&, const slot_type& s) { return {reinterpret_cast<const extent*>(s.at), s.extents}; }

  std::string name(int peer) const { return failure_->name(peer); }
  place here() const { return failure_->at(rank()); }

  bool wait(flag& counter, std::uint32_t target, int peer, const deadline& until) const {
    if (counter.reached(target)) return true;
    failure::long_wait asleep(*failure_, rank(), peer, counter, target);
    const auto hopeful = [&] {
      const bool late = failure_->passed(until);  // looked at first: who is listed as asleep has begun to count its time
      if (!until.polling()) asleep.list();
      const bool left = failure_->gone(peer) && !counter.reached(target);
      if (failure_->failed()) failure_->report(rank());  // looked at last: who left because it failed has said so before
      if (left) throw_gone(name(peer), here());
      if (late) blame(peer, until.limit);
      return true;
    };
    if (until.polling()) return hopeful() && counter.reached(target);
    counter.wait(target, hopeful, pauses_);
    return true;
  }

  [[noreturn]] void blame(int peer, std::chrono::nanoseconds limit) const {
    const auto [name, in_turn] = failure_->late(rank(), peer);
    if (failure_->failed()) failure_->report(rank());  // the late one may be on its way already, to learn of that
    throw_late(name, limit, here(), in_turn ? waits_in_turn : "");
  }

  std::shared_ptr<failure> failure_;
  std::shared_ptr<crossing> shared_;
  int pauses_;
};

}  // namespace gradsync::detail
