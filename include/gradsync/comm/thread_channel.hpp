// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// Collectives between threads: a rank reads its peers' gradients where they lie, and the fused pass writes its results there too.
///
/// A rank publishes where its buffer is and raises `posted`; it then walks its program and raises `progress` by one tick a piece of a
/// round. Everything a rank has to wait for is one of its peers' two counters. The fused pass (`reduce`) reads N inputs of the own slice,
/// adds in the canonical tree, divides, and writes N outputs: 2 bytes of memory traffic a byte and rank, the least there can be. No lock,
/// no allocation.
#pragma once

#include <algorithm>
#include <bit>
#include <cstring>
#include <memory>
#include <new>
#include <span>
#include <vector>

#include "gradsync/comm/peers.hpp"
#include "gradsync/comm/program.hpp"
#include "gradsync/comm/transport.hpp"
#include "gradsync/core/arithmetic.hpp"

namespace gradsync {

namespace detail {

inline constexpr std::size_t piece_bytes = 32 << 10;   // of a chunk: the next rank starts on it while this one does the next
inline constexpr std::size_t breath_bytes = 64 << 10;  // of a pass, after which it looks whether the group has failed

}  // namespace detail

class thread_channel {
 public:
  thread_channel(std::shared_ptr<detail::failure> shared_failure, std::shared_ptr<detail::crossing> shared, int rank, int size,
                 std::size_t slots)
      : peers_(std::move(shared_failure), std::move(shared), rank, size), views_(ranks()), cursor_(ranks()), scales_(ranks()),
        pointers_(ranks() * sizeof(void*)) {
    // Twice as many, so that the weights of the last collective can still be read when peers post the next ones; and a power of two, so
    // that slots follow each other where the sequence wraps around.
    peers_.mine().posts.resize(std::bit_ceil(2 * std::max<std::size_t>(slots, 1)));
  }

  ticket post(const program& p, const contribution& contribution) {
    ticket t{.sequence = sequence_++, .base = base_, .pieces = 1};
    if (!p.fused && p.rounds() > 0) {
      const std::size_t chunk = cut(contribution.buffer, p.chunks, 1) * size_of(contribution.buffer.type);
      t.pieces = static_cast<std::uint32_t>(std::max<std::size_t>(1, (chunk + detail::piece_bytes - 1) / detail::piece_bytes));
      base_ += static_cast<std::uint32_t>(p.rounds()) * t.pieces;
    } else {
      base_ += 1;
    }
    peers_.mine().posts[t.sequence % peers_.mine().posts.size()] = {contribution, contribution.buffer.count()};
    peers_.mine().posted.raise(t.sequence + 1);
    return t;
  }

  bool exchange(const program& p, const ticket& t, int round, std::uint32_t piece, const deadline& until) {
    for (const operation& op : p.round(round)) {
      if (op.what == operation::kind::send) continue;                     // the peer comes and reads
      if (piece == 0 && !peers_.posted(op.peer, t, until)) return false;  // in every round: it may be the first with this peer
      if (round > 0 && !peers_.passed(op.peer, tick(t, round - 1, piece), until)) return false;
      for (int h = op.hazard_begin; h < op.hazard_end; ++h)
        if (const hazard& reader = p.hazards[static_cast<std::size_t>(h)]; !peers_.passed(reader.peer, tick(t, reader.round, piece), until))
          return false;
    }
    {
      const pass inside(peers_);
      const std::span<const operation> round_ops = p.round(round);
      for (std::size_t i = 0; i < round_ops.size(); ++i)
        if (round_ops[i].what != operation::kind::send && !joined_later(round_ops, i)) perform(p, round_ops[i], t, piece);
    }
    peers_.mine().progress.raise(tick(t, round, piece));
    return true;
  }

  /// The fused all-reduce of gradients.
  bool reduce(const ticket& t, const deadline& until) {
    return fused(t, until, [&](std::size_t first, std::size_t last) {
      dispatch_gradient(peers_.lent(t).type, [&]<class T>(std::type_identity<T>) {
        const divisor<T> by(total_weight(t));
        runs<T>(first, last, [&](std::span<T*> at, std::size_t n) { mean_all<T>(at.data(), scales_.data(), peers_.size(), by, n); });
      });
    });
  }

  /// The fused all-reduce of a user's own values: no weights, no division.
  template <class T>
  bool reduce(const ticket& t, reduce_op op, const deadline& until) {
    return fused(t, until, [&](std::size_t first, std::size_t last) {
      runs<T>(first, last, [&](std::span<T*> at, std::size_t n) {
        switch (op) {
          case reduce_op::sum: return reduce_all<reduce_op::sum, T>(at.data(), peers_.size(), n);
          case reduce_op::min: return reduce_all<reduce_op::min, T>(at.data(), peers_.size(), n);
          default: return reduce_all<reduce_op::max, T>(at.data(), peers_.size(), n);
        }
      });
    });
  }

  /// Copies the root's elements into every rank's buffer.
  bool broadcast(const ticket& t, int root, const deadline& until) {
    if (peers_.rank() == root) {  // looks whether all mean the same, before it lets them go on
      for (int peer = 0; peer < peers_.size(); ++peer)
        if (!peers_.posted(peer, t, until)) return false;
    } else {
      if (!peers_.posted(root, t, until) || !peers_.passed(root, t.base + 1, until)) return false;
      const pass inside(peers_);
      const buffer_view &to = peers_.lent(t), &from = peers_.lent(root, t);
      dispatch(to.type, [&]<class T>(std::type_identity<T>) {
        two<T>(to, from, 0, to.count(), [](T* a, const T* b, std::size_t n) { std::memcpy(a, b, n * sizeof(T)); });
      });
    }
    peers_.mine().progress.raise(t.base + 1);
    for (int peer = 0; peers_.rank() == root && peer < peers_.size(); ++peer)
      if (!peers_.passed(peer, t.base + 1, until)) return false;
    return true;
  }

  bool drain(const program& p, const ticket& t, const deadline& until) {
    if (p.fused) {
      for (int peer = 0; peer < peers_.size(); ++peer)
        if (!peers_.passed(peer, t.base + 1, until)) return false;
    } else {
      for (const hazard& reader : p.readers)
        if (!peers_.passed(reader.peer, tick(t, reader.round, t.pieces - 1), until)) return false;
    }
    return true;
  }

  double total_weight(const ticket& t) const { return peers_.total_weight(t); }
  void leave() { peers_.leave(); }

 private:
  using pass = detail::peers::pass;

  std::size_t ranks() const { return static_cast<std::size_t>(peers_.size()); }
  static std::uint32_t tick(const ticket& t, int round, std::uint32_t piece) {
    return t.base + static_cast<std::uint32_t>(round) * t.pieces + piece + 1;
  }

  // All N buffers, the slice of this rank, then the tick. `body` gets an element range to work on.
  template <class F>
  bool fused(const ticket& t, const deadline& until, F&& body) {
    for (int peer = 0; peer < peers_.size(); ++peer)
      if (!peers_.posted(peer, t, until)) return false;
    for (int peer = 0; peer < peers_.size(); ++peer) {
      views_[static_cast<std::size_t>(peer)] = peers_.lent(peer, t);
      scales_[static_cast<std::size_t>(peer)] = peers_.posted_by(peer, t).lent.scale;
    }
    const buffer_view& own = views_[static_cast<std::size_t>(peers_.rank())];
    const std::size_t begin = cut(own, peers_.size(), peers_.rank()), end = cut(own, peers_.size(), peers_.rank() + 1);
    std::size_t first = begin;
    if (begin < end) {
      const pass inside(peers_);
      const std::size_t step = detail::breath_bytes / size_of(own.type);
      for (; first < end && (first == begin || !peers_.failed()); first += step) body(first, std::min(end, first + step));
    }
    if (first < end) peers_.report();
    peers_.mine().progress.raise(t.base + 1);
    return true;
  }

  // Calls f(pointers, n) for the stretches of [first, last) that are contiguous on all ranks: pointers[r] is rank r's.
  template <class T, class F>
  void runs(std::size_t first, std::size_t last, F&& f) {
    T** at = ::new (static_cast<void*>(pointers_.data())) T*[ranks()];  // one scratch for all element types
    for_each_run<T>(views_, first, last, std::span<T*>(at, ranks()), cursor_, f);
  }

  // A join is one operation a peer, one after the other; it is performed at the last.
  static bool joined_later(std::span<const operation> ops, std::size_t i) {
    auto same = [&](const operation& a, const operation& b) { return a.what == b.what && a.first == b.first && a.count == b.count; };
    return ops[i].what == operation::kind::join && i + 1 < ops.size() && same(ops[i], ops[i + 1]);
  }

  void perform(const program& p, const operation& op, const ticket& t, std::uint32_t piece) {
    const buffer_view& to = peers_.lent(t);
    const std::size_t length = detail::piece_bytes / size_of(to.type);
    dispatch_gradient(to.type, [&]<class T>(std::type_identity<T>) {
      if (t.pieces == 1) return apply_to<T>(op, t, cut(to, p.chunks, op.first), cut(to, p.chunks, op.first + op.count));
      for (int c = op.first; c < op.first + op.count; ++c) {
        const std::size_t end = cut(to, p.chunks, c + 1), begin = std::min(end, cut(to, p.chunks, c) + piece * length);
        apply_to<T>(op, t, begin, std::min(end, begin + length));
      }
    });
  }

  template <class T>
  void apply_to(const operation& op, const ticket& t, std::size_t first, std::size_t last) {
    if (op.what == operation::kind::join) return join<T>(op, t, first, last);
    const buffer_view &to = peers_.lent(t), &from = peers_.lent(op.peer, t);
    if (op.what == operation::kind::copy) {
      two<T>(to, from, first, last, [](T* a, const T* b, std::size_t n) { std::memcpy(a, b, n * sizeof(T)); });
    } else if (op.divides) {
      const divisor<T> by(total_weight(t));
      two<T>(to, from, first, last, [&](T* a, const T* b, std::size_t n) { add_divide(a, b, n, by); });
    } else {
      two<T>(to, from, first, last, [](T* a, const T* b, std::size_t n) { add(a, b, n); });
    }
  }

  // All ranks' elements at once, in tree order, into this rank's. `op` is the last of a join: all its peers are known to be ready.
  template <class T>
  void join(const operation& op, const ticket& t, std::size_t first, std::size_t last) {
    for (int peer = 0; peer < peers_.size(); ++peer) views_[static_cast<std::size_t>(peer)] = peers_.lent(peer, t);
    const divisor<T> by(op.divides ? total_weight(t) : 1);
    runs<T>(first, last, [&](std::span<T*> at, std::size_t n) { join_all(at.data(), peers_.size(), peers_.rank(), by, n); });
  }

  template <class T, class F>
  static void two(const buffer_view& to, const buffer_view& from, std::size_t first, std::size_t last, F&& f) {
    const buffer_view views[] = {to, from};
    T* pointers[2];
    std::size_t cursor[2];
    for_each_run<T>(std::span<const buffer_view>(views), first, last, std::span<T*>(pointers), std::span<std::size_t>(cursor),
                    [&](std::span<T*> p, std::size_t n) { f(p[0], p[1], n); });
  }

  detail::peers peers_;
  std::uint32_t sequence_ = 0, base_ = 0;
  std::vector<buffer_view> views_;  // scratch of the driving thread, one entry a rank
  std::vector<std::size_t> cursor_;
  std::vector<double> scales_;
  std::vector<std::byte> pointers_;
};

}  // namespace gradsync
