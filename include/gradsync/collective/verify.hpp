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

#include "gradsync/collective/any_strategy.hpp"
#include "gradsync/collective/placement.hpp"
#include "gradsync/collective/schedule.hpp"
#include "gradsync/collective/violation.hpp"
#include "gradsync/core/arithmetic.hpp"  // the shape of the canonical tree
#include "gradsync/core/series.hpp"

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

class prover {
 public:
  constexpr explicit prover(const any_strategy& s) : strategy_(s), size_(s.size), chunks_(s.chunks), rounds_(s.rounds) {}

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
  struct pair_queue {  // the sends of one pair that have not met their receives, by index in posted_; stale unless of this round
    int round = -1, head = -1, tail = -1;
  };
  struct pending_write {
    int rank = 0, chunk = 0;
    effect what = effect::copy;
    int peers = 0, last_peer = 0;
    held value = {};
  };
  struct last_write {         // into a chunk
    std::int64_t stamp = -1;  // of the rank and round that wrote
    std::size_t pending = 0;  // if that is under way
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
    if (const char* why = strategy_.refusal) return found({kind::refused_size, -1, -1, -1, -1, why}), false;
    if (chunks_ < 1 || chunks_ > most_chunks) return found({kind::bad_chunks, -1, -1, -1, chunks_}), false;
    if (rounds_ < 0 || rounds_ > most_rounds) return found({kind::bad_rounds, rounds_}), false;
    return true;
  }

  constexpr void start() {
    held_.resize(cell(size_, 0, chunks_));
    divisions_.resize(held_.size());
    queues_.resize(cell(size_, 0, size_));
    written_.resize(index(chunks_));
    for (int r = 0; r < size_; ++r) {
      all_tags_ += leaf_shape(r);
      for (int c = 0; c < chunks_; ++c) at(r, c) = {leaf_shape(r), leaf_shape(r), 1, 0};
      find_divisions(strategy_, r, divisions_.data() + cell(r, 0, chunks_));
    }
    proof_.ordered = proof_.complete = proof_.agreed = proof_.uniform = proof_.canonical = proof_.one_division = true;
  }

  constexpr void check(const message& m) {
    if (m.peer < 0 || m.peer >= size_) broken({kind::unknown_peer, round_, m.rank, m.peer, m.first});
    else if (m.peer == m.rank) broken({kind::self_message, round_, m.rank, m.peer, m.first});
    else if (m.first < 0 || m.first >= chunks_ || m.count < 1 || m.count > chunks_ - m.first)
      broken({kind::out_of_range, round_, m.rank, m.peer, m.first});
  }

  // The messages of this round, by rank and as posted.
  constexpr void collect() {
    posted_.clear();
    for (int r = 0; r < size_; ++r) strategy_.post(round_, r, posted_);
    for (const message& m : posted_) check(m);
    if (next_.size() < posted_.size()) next_.resize(posted_.size());
  }

  // Each receive meets the oldest send of its pair.
  constexpr void match() {
    int unmet = 0;
    for (int i = 0; i < static_cast<int>(posted_.size()); ++i) {
      const message& m = posted_[index(i)];
      if (!m.sends) continue;
      ++unmet;
      next_[index(i)] = -1;
      pair_queue& queue = queues_[cell(m.rank, m.peer, size_)];
      if (queue.round != round_) queue = {round_, i, i};
      else queue.tail = next_[index(queue.tail)] = i;
    }
    for (const message& m : posted_) {
      if (m.sends) continue;
      pair_queue& queue = queues_[cell(m.peer, m.rank, size_)];
      if (queue.round != round_ || queue.head < 0) return broken({kind::unmatched_receive, round_, m.rank, m.peer, m.first});
      const message& sent = posted_[index(queue.head)];
      if (sent.first != m.first || sent.count != m.count) return broken({kind::crossed, round_, m.rank, m.peer, m.first});
      queue.head = next_[index(queue.head)];
      --unmet;
    }
    for (int i = 0; unmet > 0; ++i)
      if (const message& m = posted_[index(i)]; m.sends && queues_[cell(m.rank, m.peer, size_)].head == i)
        return broken({kind::unmatched_send, round_, m.rank, m.peer, m.first});
  }

  // Every receive reads what its peer held before the round, so the writes wait until all have read.
  constexpr void receive_all() {
    writes_.clear();
    for (const message& m : posted_)
      for (int c = m.first; !m.sends && c < m.first + m.count; ++c) write(m, c);
    for (const pending_write& w : writes_) {
      if (w.what == effect::join && w.peers != size_ - 1) return broken({kind::partial_join, round_, w.rank, w.last_peer, w.chunk});
      at(w.rank, w.chunk) = w.value;
      if (divisions_[cell(w.rank, w.chunk, chunks_)].round == round_) divide(w.rank, w.chunk);
    }
  }

  // One rank's part in one round, as a number.
  constexpr std::int64_t stamp(int rank) const { return std::int64_t{round_} * size_ + rank; }

  constexpr void write(const message& m, int chunk) {
    const int peer = m.peer;
    const violation here{kind::none, round_, m.rank, peer, chunk};
    if (written_[index(chunk)].stamp != stamp(m.rank)) {
      written_[index(chunk)] = {stamp(m.rank), writes_.size()};
      const held start = m.what == effect::copy  ? at(peer, chunk)
                         : m.what == effect::add ? sum(at(m.rank, chunk), at(peer, chunk), here)
                                                 : join(chunk, here);
      writes_.push_back({m.rank, chunk, m.what, 1, peer, start});
      return;
    }
    pending_write& w = writes_[written_[index(chunk)].pending];
    if (w.what == effect::copy || w.what != m.what) return broken(as(here, kind::overlapping_writes));
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
    if (proof_.reproducibility < strategy_.claim) found({kind::weaker_than_claimed});
    const placement places(strategy_);
    proof_.in_place = places.in_place();
    for (int r = 0; r < size_; ++r)
      if (const int count = places.scratch_of(r).count; count > proof_.scratch_chunks) proof_.scratch_chunks = count;
  }

  const any_strategy& strategy_;
  int size_, chunks_, rounds_, round_ = 0;
  std::uint64_t all_tags_ = 0;
  bool sound_ = true;
  proof proof_;
  series<held> held_;             // rank x chunk
  series<division> divisions_;    // rank x chunk
  series<pair_queue> queues_;     // sender x receiver
  series<message> posted_;        // in this round
  series<int> next_;              // of a send in posted_: the pair's next one
  series<pending_write> writes_;  // of this round
  series<last_write> written_;    // by chunk
};

}  // namespace detail

/// Proves a strategy for its number of ranks.
constexpr proof verify(const any_strategy& s) { return detail::prover(s).run(); }

/// Proves `s` for `size` ranks.
template <strategy S>
constexpr proof verify(const S& s, int size) {
  return verify(erased_strategy<S>(s, size));
}

}  // namespace gradsync
