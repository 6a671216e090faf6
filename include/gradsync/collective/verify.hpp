// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// The proof of what users must be able to trust about a strategy, before anything runs; at compile time where wanted.
///
/// All ranks are played through with symbols in place of numbers: what a chunk holds is a random tag per contribution, their number, the
/// shape of the additions, and whether it was divided. The result says what was proved and, if something is wrong, the first violation.
///
///     static_assert(verify(ring{}, 5).holds());
///     if (const proof p = verify(mine, size); !p.holds()) throw usage_error{describe(p.first)};
///
/// Cost: a few steps a message and chunk; 256 ranks take a few ms (native, with its 2 p (p-1) messages, about 15). Memory: 32 bytes a chunk
/// and rank, 12 a pair of ranks. A static_assert of each strategy of the library fits the default limits of g++ and clang up to 9 ranks.
#pragma once

#include <cstdint>
#include <type_traits>
#include <vector>

#include "gradsync/collective/placement.hpp"
#include "gradsync/collective/schedule.hpp"
#include "gradsync/collective/violation.hpp"
#include "gradsync/core/arithmetic.hpp"  // the shape of the canonical tree

namespace gradsync {

/// What holds for a strategy at one size. Where messages do not fit together, nothing else is proved.
struct proof {
  bool ordered = false;       ///< messages are in bounds, and those between two ranks match in order
  bool complete = false;      ///< each rank ends with each contribution exactly once
  bool agreed = false;        ///< the same order of additions on all ranks
  bool uniform = false;       ///< for all chunks too
  bool canonical = false;     ///< the order is that of the canonical tree over ranks
  bool one_division = false;  ///< on every rank each chunk was divided exactly once, after the last addition (one rank: by the caller)
  bool in_place = false;      ///< no rank sends and writes a chunk in one round: programs need no scratch (collective/placement.hpp)
  int scratch_chunks = 0;     ///< else for how many of its chunks the rank needs scratch that needs most
  level reproducibility = level::none;
  violation first;  ///< of all violations

  /// The sum is right on all ranks.
  constexpr bool sound() const { return ordered && complete && agreed && one_division; }
  /// Sound, and as reproducible as the strategy claims.
  constexpr bool holds() const { return first.what == violation::kind::none; }
};

namespace detail {

constexpr std::uint64_t mix(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

constexpr std::uint64_t leaf_shape(int rank) { return mix(static_cast<std::uint64_t>(rank) + 1); }

// a + b is b + a, but (a + b) + c is not a + (b + c).
constexpr std::uint64_t sum_shape(std::uint64_t a, std::uint64_t b) { return a < b ? mix(a + 31 * mix(b)) : mix(b + 31 * mix(a)); }

// Adds leaf(first) .. leaf(first + count - 1) in the order of the canonical tree.
template <class Leaf, class Add>
constexpr auto fold_tree(int first, int count, const Leaf& leaf, const Add& add) {
  if (count == 1) return leaf(first);
  const int left = left_terms(count);
  return add(fold_tree(first, left, leaf, add), fold_tree(first + left, count - left, leaf, add));
}

template <strategy S>
class prover {
 public:
  constexpr prover(const S& s, int size) : strategy_{s}, size_{size} {}

  constexpr proof run() {
    if (!sized()) return proof_;
    start();
    for (round_ = 0; round_ < rounds_; ++round_) {
      collect();
      if (sound_) match();
      if (sound_) receive_all();
      if (!sound_) return {.first = proof_.first};
    }
    finish();
    return proof_;
  }

 private:
  using kind = violation::kind;

  struct held {  // what a chunk of a rank holds
    std::uint64_t tags = 0, shape = 0;
    int count = 0, divisions = 0;
  };
  struct posted_send {
    int rank;
    send what;
    int next;  // of the same pair
    bool met;
  };
  struct posted_receive {
    int rank;
    receive what;
  };
  struct pair_queue {  // the sends of one pair that have not met their receives; stale unless of this round
    int round = -1, head = -1, tail = -1;
  };
  struct pending_write {
    int rank, chunk;
    effect what;
    int peers, last_peer;
    held value;
  };

  constexpr void found(const violation& v) { proof_.first = proof_.first.what == kind::none ? v : proof_.first; }
  // Messages that do not fit together hang, and are why what came before looks wrong: said instead of it.
  constexpr void broken(const violation& v) {
    if (sound_) proof_.first = v;
    sound_ = false;
  }
  constexpr void expect(bool holds, bool& property, const violation& v) {
    if (holds) return;
    found(v);
    property = false;
  }

  constexpr std::size_t cell(int row, int column, int columns) const { return index(row) * index(columns) + index(column); }
  constexpr held& at(int rank, int chunk) { return held_[cell(rank, chunk, chunks_)]; }

  constexpr bool sized() {
    if (size_ < 1) return found({kind::bad_size}), false;
    if (const char* why = refusal(strategy_, size_)) return found({kind::refused_size, -1, -1, -1, -1, why}), false;
    chunks_ = strategy_.chunks(size_);
    if (chunks_ < 1 || chunks_ > most_chunks) return found({kind::bad_chunks, -1, -1, -1, chunks_}), false;
    rounds_ = strategy_.rounds(size_);
    if (rounds_ < 0 || rounds_ > most_rounds) return found({kind::bad_rounds, rounds_}), false;
    return true;
  }

  constexpr void start() {
    held_.assign(cell(size_, 0, chunks_), {});  // resize() of numbers is no constant expression with clang 14
    divisions_.assign(held_.size(), {});
    queues_.assign(cell(size_, 0, size_), {});
    written_by_.assign(index(chunks_), -1);
    write_of_.assign(index(chunks_), 0);
    for (int r = 0; r < size_; ++r) {
      all_tags_ += leaf_shape(r);
      for (int c = 0; c < chunks_; ++c) at(r, c) = {leaf_shape(r), leaf_shape(r), 1, 0};
      find_divisions(strategy_, r, size_, divisions_.data() + cell(r, 0, chunks_));
    }
    proof_.ordered = proof_.complete = proof_.agreed = proof_.uniform = proof_.canonical = proof_.one_division = true;
  }

  constexpr void check(int rank, int peer, int first, int count) {
    if (peer < 0 || peer >= size_) broken({kind::unknown_peer, round_, rank, peer, first});
    else if (peer == rank) broken({kind::self_message, round_, rank, peer, first});
    else if (first < 0 || first >= chunks_ || count < 1 || count > chunks_ - first) broken({kind::out_of_range, round_, rank, peer, first});
  }

  // The messages of this round, by rank and as posted.
  constexpr void collect() {
    sends_.clear();
    receives_.clear();
    for (int r = 0; r < size_; ++r)
      strategy_.round(round_, r, size_, [&](auto message) {
        if constexpr (std::is_same_v<decltype(message), send>) {
          check(r, message.to, message.first, message.count);
          sends_.push_back({r, message, -1, false});
        } else {
          check(r, message.from, message.first, message.count);
          receives_.push_back({r, message});
        }
      });
  }

  // Each receive meets the oldest send of its pair.
  constexpr void match() {
    for (int i = 0; i < static_cast<int>(sends_.size()); ++i) {
      const posted_send& s = sends_[index(i)];
      pair_queue& queue = queues_[cell(s.rank, s.what.to, size_)];
      if (queue.round != round_ || queue.head < 0) queue = {round_, i, i};
      else queue.tail = sends_[index(queue.tail)].next = i;
    }
    for (const posted_receive& r : receives_) {
      pair_queue& queue = queues_[cell(r.what.from, r.rank, size_)];
      if (queue.round != round_ || queue.head < 0) return broken({kind::unmatched_receive, round_, r.rank, r.what.from, r.what.first});
      posted_send& s = sends_[index(queue.head)];
      const bool same = s.what.first == r.what.first && s.what.count == r.what.count;
      if (!same) return broken({kind::crossed, round_, r.rank, r.what.from, r.what.first});
      s.met = true;
      queue.head = s.next;
    }
    if (sends_.size() == receives_.size()) return;
    for (const posted_send& s : sends_)
      if (!s.met) return broken({kind::unmatched_send, round_, s.rank, s.what.to, s.what.first});
  }

  // Every receive reads what its peer held before the round, so the writes wait until all have read.
  constexpr void receive_all() {
    writes_.clear();
    for (const posted_receive& r : receives_)
      for (int c = r.what.first; c < r.what.first + r.what.count; ++c) write(r, c);
    for (const pending_write& w : writes_) {
      if (w.what == effect::join && w.peers != size_ - 1) return broken({kind::partial_join, round_, w.rank, w.last_peer, w.chunk});
      at(w.rank, w.chunk) = w.value;
      if (divisions_[cell(w.rank, w.chunk, chunks_)].round == round_) divide(w.rank, w.chunk);
    }
  }

  // One rank's part in one round, as a number.
  constexpr std::int64_t stamp(int rank) const { return std::int64_t{round_} * size_ + rank; }

  constexpr void write(const posted_receive& r, int chunk) {
    const int peer = r.what.from;
    const violation here{kind::none, round_, r.rank, peer, chunk};
    if (written_by_[index(chunk)] != stamp(r.rank)) {
      written_by_[index(chunk)] = stamp(r.rank);
      write_of_[index(chunk)] = writes_.size();
      const held start = r.what.what == effect::copy  ? at(peer, chunk)
                         : r.what.what == effect::add ? sum(at(r.rank, chunk), at(peer, chunk), here)
                                                      : join(chunk, here);
      writes_.push_back({r.rank, chunk, r.what.what, 1, peer, start});
      return;
    }
    pending_write& w = writes_[write_of_[index(chunk)]];
    if (w.what == effect::copy || w.what != r.what.what) return broken(as(here, kind::overlapping_writes));
    if (w.what == effect::add) w.value = sum(w.value, at(peer, chunk), here);
    else if (peer <= w.last_peer) return broken(as(here, kind::partial_join));
    ++w.peers;
    w.last_peer = peer;
  }

  static constexpr violation as(violation v, kind what) {
    v.what = what;
    return v;
  }

  constexpr held sum(const held& a, const held& b, const violation& here) {
    expect(a.divisions + b.divisions == 0, proof_.one_division, as(here, kind::added_after_division));
    const int count = a.count + b.count > size_ ? size_ + 1 : a.count + b.count;  // too many once, too many for ever: it may not overflow
    return {a.tags + b.tags, sum_shape(a.shape, b.shape), count, a.divisions + b.divisions > 0 ? 1 : 0};
  }

  constexpr held join(int chunk, const violation& here) {
    return fold_tree(
        0, size_, [&](int rank) { return at(rank, chunk); }, [&](const held& a, const held& b) { return sum(a, b, here); });
  }

  constexpr bool whole(const held& h) const { return h.count == size_ && h.tags == all_tags_; }

  constexpr void divide(int rank, int chunk) {
    held& h = at(rank, chunk);
    expect(whole(h), proof_.one_division, {kind::divided_early, round_, rank, -1, chunk});
    ++h.divisions;
  }

  constexpr void finish() {
    const std::uint64_t canonical = fold_tree(0, size_, leaf_shape, sum_shape);
    for (int r = 0; r < size_; ++r)
      for (int c = 0; c < chunks_; ++c) {
        const held& h = at(r, c);
        expect(whole(h), proof_.complete, {kind::incomplete, -1, r, -1, c});
        expect(size_ == 1 || h.divisions == 1, proof_.one_division, {kind::undivided, -1, r, -1, c});
        expect(h.shape == at(0, c).shape, proof_.agreed, {kind::disagreement, -1, r, -1, c});
        proof_.uniform = proof_.uniform && h.shape == at(0, 0).shape;
        proof_.canonical = proof_.canonical && h.shape == canonical;
      }
    proof_.agreed = proof_.agreed && proof_.complete;
    proof_.uniform = proof_.uniform && proof_.agreed;
    proof_.canonical = proof_.canonical && proof_.uniform;
    const int levels = int{proof_.agreed} + int{proof_.uniform} + int{proof_.canonical};  // each contains those before it
    proof_.reproducibility = static_cast<level>(levels);
    if (proof_.reproducibility < strategy_.claim(size_)) found({kind::weaker_than_claimed});
    const placement places(strategy_, size_);
    proof_.in_place = places.in_place();
    for (int r = 0; r < size_; ++r)
      if (const int count = places.scratch_of(r).count; count > proof_.scratch_chunks) proof_.scratch_chunks = count;
  }

  const S& strategy_;
  int size_ = 0, chunks_ = 0, rounds_ = 0, round_ = 0;
  std::uint64_t all_tags_ = 0;
  bool sound_ = true;
  proof proof_;
  std::vector<held> held_;                // rank x chunk
  std::vector<division> divisions_;       // rank x chunk
  std::vector<pair_queue> queues_;        // sender x receiver
  std::vector<posted_send> sends_;        // of this round
  std::vector<posted_receive> receives_;  // of this round
  std::vector<pending_write> writes_;     // of this round
  std::vector<std::int64_t> written_by_;  // per chunk: the stamp of who wrote it last
  std::vector<std::size_t> write_of_;     // per chunk: its pending write, if written_by_ is current
};

}  // namespace detail

/// Proves `s` for `size` ranks.
template <strategy S>
constexpr proof verify(const S& s, int size) {
  return detail::prover<S>{s, size}.run();
}

}  // namespace gradsync
