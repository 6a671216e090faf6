// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// What ranks that reach each other's memory post for each other, and each rank's own copy of it: what is the same between threads
/// (comm/peers.hpp) and between processes (comm/process_peers.hpp).
///
/// A rank has a ring of slots, one for each collective that may be under way or was lately. All that a peer has to know lies on one cache
/// line, together with the flag that says that it is there: between far caches each line takes as long as the wait itself. Whoever has seen
/// the flag copies the line, so that later rounds, views and checks look at memory of their own. Elsewhere lie only the list of a buffer's
/// extents, where they are several, and on the slot's further lines the scratch, where the collective has some, or the elements of a buffer
/// that is small enough to travel with its posting: then each rank adds all of them for itself, and waits for the others once, not twice.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "gradsync/comm/call.hpp"
#include "gradsync/comm/flag.hpp"
#include "gradsync/comm/transport.hpp"
#include "gradsync/core/arithmetic.hpp"
#include "gradsync/core/buffer_view.hpp"
#include "gradsync/core/deadline.hpp"
#include "gradsync/core/dtype.hpp"
#include "gradsync/core/series.hpp"

namespace gradsync::detail {

// To be written soon: lets the cache take the line from others meanwhile.
inline void take_line([[maybe_unused]] const void* at) {
#if defined(__x86_64__)
  asm volatile("prefetchw (%0)" : : "r"(at));
#endif
}

// Where something lies, as all ranks can say it: its address between threads, its offset in the owner's segment between processes.
using location = std::uint64_t;

// Of a buffer that travels with its posting: more would take as long to come as a second wait.
inline constexpr std::size_t carried_bytes = 576;

// Filled by its owner alone, who then raises the flag to the collective's sequence + 1.
template <flag_scope Scope>
struct alignas(128) slot {
  basic_flag<Scope> posted;
  int call = 0;
  dtype type = dtype::float32;
  bool has_scratch = false, carries = false;
  std::uint64_t count = 0, extents = 0;
  location at = 0;  // of the elements; of the list of extents, where they are several
  double scale = 1, weight = 0;
  struct second_place {
    location at = 0;
    std::uint64_t first = 0, count = 0;
  };
  union alignas(64) {
    second_place scratch = {};         // of some of the buffer's elements
    std::byte carried[carried_bytes];  // the elements themselves
  };
};

static_assert(sizeof(slot<flag_scope::threads>) == 64 + carried_bytes && std::is_standard_layout_v<slot<flag_scope::threads>>);
static_assert(offsetof(slot<flag_scope::threads>, weight) + sizeof(double) <= 64);  // on the flag's line

// One rank's lines in a channel, beside its slots. Only that rank raises the flags; everybody reads them. Each has two lines to itself: the
// second would be prefetched with its neighbour's.
template <flag_scope Scope>
struct lane_of_flags {
  alignas(128) basic_flag<Scope> opened;  // to 1, when the slots are there
  alignas(128) basic_flag<Scope> progress;
  alignas(128) std::atomic<std::uint32_t> inside{0};  // passes under way in peers' memory
};

// What a rank has lent, in pointers of the rank that looks. Several extents may be looked at in a pass only: a rank that fails takes them
// away.
struct posting {
  contribution lent;
  std::size_t count = 0;
  extent scratch = {};
  bool carried = false;   // its elements came along; of a peer's only those are to be looked at, since it may have gone on
  bool too_late = false;  // of the own one: the group had failed before, and no peer gets to see it
};

/// One rank's view of its peers, as far as it does not matter how it reaches them. `Self` derives from it, and has
///
///     bool wait(flag, target, peer, deadline) const    // false: a poll, and it is not there yet
///     bool failed() const                              // the group
///     slot* slots_of(rank) const, of its lane's; std::size_t slots_in(rank) const: how many, a power of two
///     location published(extent, dtype) const          // of the own elements, for peers
///     location listed(ticket, series_view<extent>, dtype)
///     std::byte* reach(peer, location) const           // and back
///     series_view<extent> list_of(peer, ticket, slot)
///     std::string name(peer) const; place here() const // for errors
template <class Self, flag_scope Scope>
class postings {
 public:
  using slot_type = slot<Scope>;
  using flags_type = lane_of_flags<Scope>;

  int rank() const { return rank_; }
  int size() const { return static_cast<int>(lanes_.size()); }

  /// Tells all peers what this rank lends, and gives them the elements themselves where they are `carried`.
  void post(const ticket& t, const contribution& lent, const extent& scratch, bool carried = false) {
    const buffer_view& buffer = lent.buffer;
    const std::size_t count = buffer.count(), extents = buffer.extents.size();
    slot_type& out = slot_of(rank_, t);
    out.call = lent.call;
    out.type = buffer.type;
    out.count = count;
    out.extents = extents;
    // Where carried too, though nobody looks there: memory that peers cannot reach is refused whatever its size.
    out.at = extents == 1 ? self().published(buffer.extents[0], buffer.type) : self().listed(t, buffer.extents, buffer.type);
    out.scale = lent.scale;
    out.weight = lent.weight;
    out.has_scratch = scratch.count > 0;
    if (out.has_scratch) {
      out.scratch.at = self().published(scratch, buffer.type);
      out.scratch.first = scratch.first;
      out.scratch.count = scratch.count;
    }
    out.carries = carried;
    if (carried && count > 0)  // no elements may have no address
      for (const extent& e : buffer.extents)
        std::memcpy(out.carried + e.first * size_of(buffer.type), e.data, e.count * size_of(buffer.type));
    known_posting& own = known(rank_, t);
    own.what = {lent, count, scratch, carried, self().failed()};
    own.collective = t.sequence;
    if (!own.what.too_late) out.posted.raise(t.sequence + 1);
    slot_type& next = slot_of(rank_, {.sequence = t.sequence + 1});  // where nobody looks yet
    take_line(&next);
    for (std::size_t i = 0; carried && i < buffer.bytes(); i += 64) take_line(next.carried + i);
  }

  /// Once all have posted, and until one of them is through, nobody looks how far this rank is.
  void expect_to_pass() const { take_line(&flags_of(rank_).progress); }

  /// Tells all peers that this rank is through.
  void pass_on(std::uint32_t tick) { flags_of(rank_).progress.raise(tick); }

  /// Whether `peer` has posted, of the same length and type as this rank, and for the same kind of program.
  bool posted(int peer, const ticket& t, const deadline& until) {
    known_posting& k = known(peer, t);
    if (k.collective == t.sequence) return true;
    if (!self().wait(flags_of(peer).opened, 1, peer, until)) return false;
    slot_type& theirs = slot_of(peer, t);
    if (!self().wait(theirs.posted, t.sequence + 1, peer, until)) return false;
    const posting& ours = known(rank_, t).what;
    const request asked{theirs.call, theirs.count, theirs.type}, own{ours.lent.call, ours.count, ours.lent.buffer.type};
    if (asked != own) check_alike(own, asked, self().name(peer), self().here());
    if (theirs.carries != ours.carried) throw_other_strategy(self().name(peer), "the strategy of this one", self().here());
    learn(k, peer, t, theirs);
    return true;
  }

  /// Whether `peer` has ever posted.
  bool has_posted(int peer) const { return flags_of(peer).opened.reached(1) && self().slots_of(peer)[0].posted.value() != 0; }

  /// Whether `peer` has raised its progress so far.
  bool passed(int peer, std::uint32_t target, const deadline& until) const {
    return self().wait(flags_of(peer).progress, target, peer, until);
  }

  /// The elements that came with a posting that `posted` has found; where they lie until its slot is posted anew.
  std::byte* elements_of(int rank, const ticket& t) const { return slot_of(rank, t).carried; }

  /// Of this rank, or of a peer that `posted` has found.
  const posting& posted_by(int rank, const ticket& t) const { return known(rank, t).what; }
  const buffer_view& lent(int rank, const ticket& t) const { return posted_by(rank, t).lent.buffer; }
  const buffer_view& lent(const ticket& t) const { return lent(rank_, t); }

  /// Adds the ranks' weights in the canonical tree. They can all be read as soon as some chunk holds every rank's part.
  double total_weight(const ticket& t) const { return weight_of(t, 0, size()); }

 protected:
  postings(int rank, int size) : rank_(rank), lanes_(static_cast<std::size_t>(size)) {}

  // Where the lanes are has been set; the own slots are there.
  void open() {
    own_slots_ = self().slots_in(rank_);
    known_ = series<known_posting>(own_slots_ * lanes_.size());
    flags_of(rank_).opened.raise(1);
  }

  flags_type& flags_of(int rank) const { return *lanes_[static_cast<std::size_t>(rank)]; }
  void set_flags(int rank, flags_type& at) { lanes_[static_cast<std::size_t>(rank)] = &at; }

 private:
  struct known_posting {
    std::int64_t collective = -1;  // its sequence; none yet
    posting what;
    extent only;  // where there is one
  };

  Self& self() { return static_cast<Self&>(*this); }
  const Self& self() const { return static_cast<const Self&>(*this); }

  slot_type& slot_of(int rank, const ticket& t) const { return self().slots_of(rank)[t.sequence & (self().slots_in(rank) - 1)]; }
  std::size_t known_at(int rank, const ticket& t) const {
    return static_cast<std::size_t>(rank) * own_slots_ + (t.sequence & (own_slots_ - 1));
  }
  known_posting& known(int rank, const ticket& t) { return known_[known_at(rank, t)]; }
  const known_posting& known(int rank, const ticket& t) const { return known_[known_at(rank, t)]; }

  void learn(known_posting& k, int peer, const ticket& t, const slot_type& theirs) {
    const std::size_t count = theirs.count;
    series_view<extent> extents;
    if (!theirs.carries && theirs.extents == 1) {
      k.only = {self().reach(peer, theirs.at), 0, count};
      extents = {&k.only, 1};
    } else if (!theirs.carries) {
      extents = self().list_of(peer, t, theirs);
    }
    k.what.lent = {.buffer = {theirs.type, extents}, .scale = theirs.scale, .weight = theirs.weight, .call = theirs.call};
    k.what.count = count;
    k.what.carried = theirs.carries;
    k.what.scratch = {};
    if (theirs.has_scratch) k.what.scratch = {self().reach(peer, theirs.scratch.at), theirs.scratch.first, theirs.scratch.count};
    k.collective = t.sequence;
  }

  double weight_of(const ticket& t, int first, int count) const {
    if (count == 1) {  // that others have come may be known from a third rank
      const known_posting& k = known(first, t);
      return k.collective == t.sequence ? k.what.lent.weight : slot_of(first, t).weight;
    }
    const int left = left_terms(count);
    return weight_of(t, first, left) + weight_of(t, first + left, count - left);
  }

  int rank_;
  std::size_t own_slots_ = 0;
  series<flags_type*> lanes_;    // by rank
  series<known_posting> known_;  // by rank and own slot
};

}  // namespace gradsync::detail
