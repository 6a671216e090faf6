// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// Collectives between ranks that reach each other's memory: a rank reads its peers' gradients where they lie, and the fused pass writes
/// its results there too. `Peers` knows how to reach them: threads (comm/peers.hpp) or processes that share memory
/// (comm/process_peers.hpp).
///
/// A rank publishes where its buffer is and raises a flag; it then walks its program and raises `progress` by one tick a piece of a
/// round. Everything a rank has to wait for is a flag of one of its peers'. The fused pass (`reduce`) reads N inputs of the own slice,
/// adds in the canonical tree, divides, and writes N outputs: 2 bytes of memory traffic a byte and rank, the least there can be. Of few
/// elements each rank adds all, which come with the flags. No lock, and no allocation but that of scratch, by the first collective that
/// needs so much in its slot.
#pragma once

#include <algorithm>
#include <bit>
#include <concepts>
#include <cstring>
#include <memory>
#include <new>
#include <span>

#include "gradsync/comm/pass.hpp"
#include "gradsync/comm/peers.hpp"
#include "gradsync/comm/posted_views.hpp"
#include "gradsync/comm/program.hpp"
#include "gradsync/comm/transport.hpp"
#include "gradsync/core/arithmetic.hpp"
#include "gradsync/core/error.hpp"
#include "gradsync/core/host_stream.hpp"
#include "gradsync/core/series.hpp"

namespace gradsync {

namespace detail {

inline constexpr std::size_t piece_bytes = 32 << 10;   // of a chunk: the next rank starts on it while this one does the next
inline constexpr std::size_t breath_bytes = 64 << 10;  // of a pass, after which it looks whether the group has failed
inline constexpr std::size_t few_bytes = 512;          // of each peer, which are asked for ahead of a pass

}  // namespace detail

template <class Peers>
class peer_channel {
 public:
  using stream_type = host_stream;
  static constexpr bool fused_is_weighted = true;

  peer_channel(Peers peers, std::size_t slots)
      : peers_(std::move(peers)), views_(std::max<std::size_t>(ranks() + 1, 3)), cursor_(views_.size()), scales_(ranks()),
        pointers_(views_.size() * sizeof(void*)) {
    // Twice as many, so that the weights of the last collective can still be read when peers post the next ones; and a power of two, so
    // that slots follow each other where the sequence wraps around. And four, as a peer may still read what the last posting carried.
    peers_.make_slots(std::bit_ceil(2 * std::max<std::size_t>(slots, 2)));
  }
  peer_channel(std::shared_ptr<detail::failure> shared_failure, std::shared_ptr<detail::crossing> shared, int rank, int size,
               std::size_t slots) requires std::same_as<Peers, detail::peers>
      : peer_channel(Peers(std::move(shared_failure), std::move(shared), rank, size), slots) {}

  ticket post(const program& p, const contribution& contribution) {
    ticket t{.sequence = sequence_++, .base = base_, .pieces = 1};
    if (!p.fused && p.rounds() > 0) {
      const std::size_t chunk = cut(contribution.buffer, p.chunks, 1) * size_of(contribution.buffer.type);
      t.pieces = static_cast<std::uint32_t>(std::max<std::size_t>(1, (chunk + detail::piece_bytes - 1) / detail::piece_bytes));
      base_ += static_cast<std::uint32_t>(p.rounds()) * t.pieces;
    } else {
      base_ += 1;
    }
    const extent scratch = scratch_for(p, t, contribution.buffer);
    peers_.post(t, contribution, scratch, p.fused && contribution.buffer.bytes() <= detail::carried_bytes);
    return t;
  }

  bool exchange(const program& p, const ticket& t, int round, std::uint32_t piece, const deadline& until) {
    for (const operation& op : p.round(round)) {
      if (op.what == operation::kind::send) continue;                     // the peer comes and reads
      if (piece == 0 && !peers_.posted(op.peer, t, until)) return false;  // in every round: it may be the first with this peer
      if (piece == 0 && op.from == region::scratch) detail::expect_scratch(peers_, p, op, t);
      if (round > 0 && !peers_.passed(op.peer, tick(t, round - 1, piece), until)) return false;
      for (int h = op.hazard_begin; h < op.hazard_end; ++h)
        if (const hazard& reader = p.hazards[static_cast<std::size_t>(h)]; !peers_.passed(reader.peer, tick(t, reader.round, piece), until))
          return false;
    }
    {
      const detail::pass inside(peers_);
      for (series_view<operation> left = p.round(round), now; !left.empty(); left = left.subspan(now.size())) {
        now = left.first(performed_at_once(left));
        if (now[0].what != operation::kind::send) perform(p, now, t, piece);
      }
    }
    peers_.pass_on(tick(t, round, piece));
    return true;
  }

  /// The fused all-reduce of gradients.
  bool reduce(const ticket& t, const deadline& until) {
    if (!all_posted(t, until)) return false;
    for (int peer = 0; peer < peers_.size(); ++peer) scales_[static_cast<std::size_t>(peer)] = peers_.posted_by(peer, t).lent.scale;
    dispatch_gradient(peers_.lent(t).type, [&]<class T>(std::type_identity<T>) {
      const divisor<T> by(total_weight(t));
      add_up<T>(t, [&](T* const* at, std::size_t n, T* only) { mean_all<T>(at, scales_.data(), peers_.size(), by, n, only); });
    });
    return true;
  }

  /// The fused all-reduce of a user's own values: no weights, no division.
  template <class T>
  bool reduce(const ticket& t, reduce_op op, const deadline& until) {
    if (!all_posted(t, until)) return false;
    add_up<T>(t, [&](T* const* at, std::size_t n, T* only) {
      switch (op) {
        case reduce_op::sum: return reduce_all<reduce_op::sum, T>(at, peers_.size(), n, only);
        case reduce_op::min: return reduce_all<reduce_op::min, T>(at, peers_.size(), n, only);
        default: return reduce_all<reduce_op::max, T>(at, peers_.size(), n, only);
      }
    });
    return true;
  }

  /// Copies the root's elements into every rank's buffer.
  bool broadcast(const ticket& t, int root, const deadline& until) {
    if (peers_.rank() == root) {  // looks whether all mean the same, before it lets them go on
      for (int peer = 0; peer < peers_.size(); ++peer)
        if (!peers_.posted(peer, t, until)) return false;
    } else {
      if (!peers_.posted(root, t, until) || !peers_.passed(root, t.base + 1, until)) return false;
      const buffer_view& own = peers_.lent(t);
      if (carried(t)) {
        const extent all{peers_.elements_of(root, t), 0, own.count()};
        detail::copy_elements(own, {own.type, std::span(&all, 1)}, 0, own.count());
      } else {
        const detail::pass inside(peers_);
        detail::copy_elements(own, peers_.lent(root, t), 0, own.count());
      }
    }
    peers_.pass_on(t.base + 1);
    for (int peer = 0; peers_.rank() == root && peer < peers_.size(); ++peer)
      if (!peers_.passed(peer, t.base + 1, until)) return false;
    return true;
  }

  bool drain(const program& p, const ticket& t, const deadline& until) {
    if (p.fused) {
      for (int peer = 0; peer < peers_.size() && !carried(t); ++peer)
        if (!peers_.passed(peer, t.base + 1, until)) return false;
    } else {
      for (const hazard& reader : p.readers)
        if (!peers_.passed(reader.peer, tick(t, reader.round, t.pieces - 1), until)) return false;
    }
    return true;
  }

  double total_weight(const ticket& t) const { return peers_.total_weight(t); }
  double total(const ticket& t) const { return peers_.total_weight(t); }
  host_stream& stream() { return stream_; }
  void leave() { peers_.leave(); }

  /// Of this rank, so far.
  std::size_t scratch_bytes() const { return peers_.scratch_bytes(); }

 private:
  std::size_t ranks() const { return static_cast<std::size_t>(peers_.size()); }

  // The slot's scratch, which nobody reads any more: the collective that had it was drained before this one was posted.
  extent scratch_for(const program& p, const ticket& t, const buffer_view& buffer) {
    const std::size_t bytes = p.fused ? 0 : p.scratch_bytes(buffer);
    if (bytes == 0) return {};
    const auto [begin, end] = p.scratch_of(buffer);
    return {peers_.scratch(t, bytes), begin, end - begin};
  }

  static std::uint32_t tick(const ticket& t, int round, std::uint32_t piece) {
    return t.base + static_cast<std::uint32_t>(round) * t.pieces + piece + 1;
  }

  bool carried(const ticket& t) const { return peers_.posted_by(peers_.rank(), t).carried; }

  // True: all ranks' buffers are there for a fused pass.
  bool all_posted(const ticket& t, const deadline& until) {
    const std::size_t bytes = carried(t) ? peers_.lent(t).bytes() : 0;
    for (int peer = 0; peer < peers_.size(); ++peer) {
      if (!peers_.posted(peer, t, until)) return false;
      for (std::size_t i = 0; i < bytes; i += 64) __builtin_prefetch(peers_.elements_of(peer, t) + i);
    }
    if (!carried(t)) peers_.expect_to_pass();
    else if (peers_.posted_by(peers_.rank(), t).too_late) peers_.report();  // others have given it up
    return true;
  }

  // Calls f(pointers, n, only) for stretches of n elements of all ranks' buffers, whose sums go where `only` says, or all of `pointers`.
  template <class T, class F>
  void add_up(const ticket& t, F&& f) {
    carried(t) ? whole<T>(t, f) : slice<T>(t, f);
  }

  // All elements, for this rank alone. Peers do the same, and none of them has to know that this one is through.
  template <class T, class F>
  void whole(const ticket& t, F&& f) {
    T** at = ::new (static_cast<void*>(pointers_.data())) T*[ranks()];
    for (const extent& e : peers_.lent(t).extents) {
      for (int peer = 0; peer < peers_.size(); ++peer) at[peer] = reinterpret_cast<T*>(peers_.elements_of(peer, t)) + e.first;
      f(at, e.count, reinterpret_cast<T*>(e.data));
    }
  }

  // This rank's slice, for all ranks; then raises the tick.
  template <class T, class F>
  void slice(const ticket& t, F&& f) {
    for (int peer = 0; peer < peers_.size(); ++peer) views_[static_cast<std::size_t>(peer)] = peers_.lent(peer, t);
    const buffer_view& own = views_[static_cast<std::size_t>(peers_.rank())];
    const std::size_t begin = cut(own, peers_.size(), peers_.rank()), end = cut(own, peers_.size(), peers_.rank() + 1);
    std::size_t first = begin;
    if (begin < end) {
      const detail::pass inside(peers_);
      const std::size_t step = detail::breath_bytes / sizeof(T);
      const bool few = (end - begin) * sizeof(T) <= detail::few_bytes;
      for (; first < end && (first == begin || !peers_.failed()); first += step)
        runs<T>(ranks(), first, std::min(end, first + step), [&](std::span<T*> at, std::size_t n) {
          if (few) take_lines<T>(at, n);
          f(at.data(), n, static_cast<T*>(nullptr));
        });
    }
    if (first < end) peers_.report();
    peers_.pass_on(t.base + 1);
  }

  // What a pass writes to peers comes for that at once, rather than to be read first and then again.
  template <class T>
  void take_lines(std::span<T* const> at, std::size_t n) const {
    for (std::size_t peer = 0; peer < at.size(); ++peer)
      for (std::size_t i = 0; static_cast<int>(peer) != peers_.rank() && i < n; i += 64 / sizeof(T)) detail::take_line(at[peer] + i);
  }

  // Calls f(pointers, n) for the stretches of [first, last) that are contiguous in the first views of views_, as many as `views`.
  template <class T, class F>
  void runs(std::size_t views, std::size_t first, std::size_t last, F&& f) {
    T** at = ::new (static_cast<void*>(pointers_.data())) T*[views];  // one scratch for all element types
    for_each_run<T>(std::span(views_).first(views), first, last, std::span<T*>(at, views), cursor_, f);
  }

  void perform(const program& p, series_view<operation> now, const ticket& t, std::uint32_t piece) {
    const buffer_view& lent = peers_.lent(t);
    const operation& op = now[0];
    if (t.pieces == 1) return apply(now, t, cut(lent, p.chunks, op.first), cut(lent, p.chunks, op.first + op.count));
    const std::size_t length = detail::piece_bytes / size_of(lent.type);
    for (int c = op.first; c < op.first + op.count; ++c) {
      const std::size_t end = cut(lent, p.chunks, c + 1), begin = std::min(end, cut(lent, p.chunks, c) + piece * length);
      apply(now, t, begin, std::min(end, begin + length));
    }
  }

  void apply(series_view<operation> now, const ticket& t, std::size_t first, std::size_t last) {
    const operation& op = now[0];
    if (op.what == operation::kind::copy)
      return detail::copy_elements(detail::view_of(peers_, peers_.rank(), op.to, t), detail::view_of(peers_, op.peer, op.from, t), first,
                                   last);
    dispatch_gradient(peers_.lent(t).type, [&]<class T>(std::type_identity<T>) {
      op.what == operation::kind::join ? join<T>(now, t, first, last) : add_to<T>(op, t, first, last);
    });
  }

  template <class T>
  void add_to(const operation& op, const ticket& t, std::size_t first, std::size_t last) {
    views_[0] = detail::view_of(peers_, peers_.rank(), op.to, t);
    views_[1] = detail::view_of(peers_, peers_.rank(), op.own, t);
    views_[2] = detail::view_of(peers_, op.peer, op.from, t);
    const divisor<T> by(op.divides ? total_weight(t) : 1);
    runs<T>(3, first, last,
            [&](std::span<T*> at, std::size_t n) { op.divides ? add_divide(at[0], at[1], at[2], n, by) : add(at[0], at[1], at[2], n); });
  }

  // All ranks' elements at once, in tree order, into this rank's. The operations of a join are all known to be ready.
  template <class T>
  void join(series_view<operation> ops, const ticket& t, std::size_t first, std::size_t last) {
    const operation& op = ops.front();
    for (const operation& theirs : ops)
      views_[static_cast<std::size_t>(theirs.peer)] = detail::view_of(peers_, theirs.peer, theirs.from, t);
    views_[static_cast<std::size_t>(peers_.rank())] = detail::view_of(peers_, peers_.rank(), op.own, t);
    views_[ranks()] = detail::view_of(peers_, peers_.rank(), op.to, t);
    const divisor<T> by(op.divides ? total_weight(t) : 1);
    runs<T>(ranks() + 1, first, last, [&](std::span<T*> at, std::size_t n) { join_all(at.data(), peers_.size(), peers_.size(), by, n); });
  }

  Peers peers_;
  host_stream stream_;
  std::uint32_t sequence_ = 0, base_ = 0;
  series<buffer_view> views_;  // scratch of the driving thread, one entry a rank and one more
  series<std::size_t> cursor_;
  series<double> scales_;
  series<std::byte> pointers_;
};

/// Between threads of one process.
using thread_channel = peer_channel<detail::peers>;

}  // namespace gradsync
