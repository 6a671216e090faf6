// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// Collectives between ranks that pass messages, over any endpoint (comm/endpoint.hpp): MPI, queues in a test.
///
/// A rank's program says what it sends and receives. A copy arrives where it belongs; what is to be added arrives in memory of the
/// channel's own, and the endpoint's stream adds it. Chunks travel in pieces, and the messages of one piece are under way while the one
/// before it is added: so there are two such memories. Before the first bucket of an update moves the ranks call the roll
/// (comm/roll_call.hpp). The others follow without a question: their plan and programs were agreed on at the start, and Σw is the same.
///
/// Buffers that lie in several extents are gathered into memory of the channel's own, and the result is scattered: two copies. A bucket
/// that is packed or adopted lies in one, and is sent from where it lies.
///
/// Cost beside the strategy's: a small message to each peer, once an update. Memory: `scratch_bytes()`, allocated by the first collectives
/// and kept.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "gradsync/comm/endpoint.hpp"
#include "gradsync/comm/program.hpp"
#include "gradsync/comm/roll_call.hpp"
#include "gradsync/comm/transport.hpp"
#include "gradsync/core/aligned_bytes.hpp"
#include "gradsync/core/buffer_view.hpp"

namespace gradsync {

template <endpoint Endpoint>
class message_channel {
 public:
  using stream_type = typename Endpoint::stream_type;

  /// For up to `slots` collectives at a time. They run one after the other.
  message_channel(Endpoint own, std::size_t slots)
      : roll_(own.size()), lent_(std::bit_ceil(2 * std::max<std::size_t>(slots, 1))), totals_(lent_.size()), endpoint_(std::move(own)) {}

  ticket post(const program& p, const contribution& mine) {
    ticket t{.sequence = sequence_++, .base = 0, .pieces = 1};
    if (p.rounds() > 0) {
      const std::size_t chunk = cut(mine.buffer, p.chunks, 1) * size_of(mine.buffer.type);
      t.pieces = static_cast<std::uint32_t>(std::max<std::size_t>(1, (chunk + Endpoint::piece_bytes - 1) / Endpoint::piece_bytes));
    }
    lent_[slot(t)] = mine;
    totals_[slot(t)] = mine.weight;  // one rank has nobody to ask
    return t;
  }

  bool exchange(const program& p, const ticket& t, int round, std::uint32_t piece, const deadline& until) {
    const step now{round, piece}, first{0, 0};
    if (now == first && !opened(p, t, until)) return false;
    // A piece shares no element with its neighbours. So the next one's messages may leave before this one is in place: all that they hold
    // was in place a whole round ago.
    while (begun_ != end(p) && (begun_ == now || (t.pieces > 1 && begun_ == after(t, now)))) {
      begin(p, t, begun_);
      begun_ = after(t, begun_);
    }
    if (!endpoint_.arrived(slot(t, now), until)) return false;
    perform(p, t, now);
    if (after(t, now) == end(p)) close(t);
    return true;
  }

  /// Nothing is left under way when the last round is over.
  bool drain(const program&, const ticket&, const deadline&) { return true; }

  double total_weight(const ticket& t) const { return totals_[slot(t)]; }
  typename stream_type::total total(const ticket& t) const { return totals_[slot(t)]; }

  stream_type& stream() { return endpoint_.stream(); }
  void leave() { endpoint_.leave(); }
  std::size_t scratch_bytes() const { return gathered_.size() + scratch_.size() + arrivals_[0].size() + arrivals_[1].size(); }

 private:
  static constexpr std::size_t line = 256;  // what arrives begins on one of these

  // One piece of one round.
  struct step {
    int round = 0;
    std::uint32_t piece = 0;
    friend constexpr bool operator==(const step&, const step&) = default;
  };
  static step after(const ticket& t, const step& s) { return s.piece + 1 == t.pieces ? step{s.round + 1, 0} : step{s.round, s.piece + 1}; }
  static step end(const program& p) { return {p.rounds(), 0}; }
  static unsigned slot(const ticket& t, const step& s) { return (static_cast<unsigned>(s.round) * t.pieces + s.piece) % 2; }
  std::size_t slot(const ticket& t) const { return t.sequence % lent_.size(); }

  // The first thing a collective does, as often as it has to be tried.
  bool opened(const program& p, const ticket& t, const deadline& until) {
    const contribution& mine = lent_[slot(t)];
    if (open_) return true;
    if (mine.part == 0 && !std::exchange(called_, true))
      roll_.begin(
          endpoint_,
          {.count = mine.buffer.count(), .program = identity(p), .weight = mine.weight, .call = mine.call, .type = mine.buffer.type});
    if (called_) {
      if (!roll_.answered(endpoint_, p.name, until)) return false;
      total_ = roll_.total_weight();
      called_ = false;
    }
    totals_[slot(t)] = total_;
    open_ = true;
    begun_ = {};
    prepare(p, t, mine.buffer);
    return true;
  }

  void prepare(const program& p, const ticket& t, const buffer_view& buffer) {
    type_ = buffer.type;
    width_ = size_of(type_);
    std::size_t most = 0;
    for (int k = 0; k < p.rounds(); ++k) most = std::max(most, arriving(p, t, buffer, k));
    for (std::size_t i = 0; i < (t.pieces > 1 || p.rounds() > 1 ? 2u : 1u); ++i) grow(arrivals_[i], most);
    grow(scratch_, p.scratch_bytes(buffer));
    scratch_first_ = p.scratch_of(buffer).begin;
    scattered_ = buffer.extents.size() > 1;
    if (!scattered_) {
      buffer_ = buffer.extents.empty() ? nullptr : buffer.extents[0].data;
      return;
    }
    grow(gathered_, buffer.bytes());
    buffer_ = gathered_.data();
    const extent whole{buffer_, 0, buffer.count()};
    stream().copy({type_, std::span(&whole, 1)}, buffer);
  }

  void close(const ticket& t) {
    open_ = false;
    if (!scattered_) return;
    const buffer_view& home = lent_[slot(t)].buffer;
    const extent whole{buffer_, 0, home.count()};
    stream().copy(home, {type_, std::span(&whole, 1)});
  }

  void grow(aligned_bytes& memory, std::size_t bytes) {
    if (memory.size() < bytes) memory = endpoint_.allocate(bytes);
  }

  // Equal on ranks that run the same program, as far as messages must fit together.
  static std::uint64_t identity(const program& p) {
    std::uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
    const auto mix = [&hash](std::uint64_t x) { hash = (hash ^ x) * 0x100000001b3; };
    for (const char c : p.name) mix(static_cast<unsigned char>(c));
    mix(static_cast<std::uint64_t>(p.chunks));
    mix(static_cast<std::uint64_t>(p.rounds()));
    return hash;
  }

  // f(first, last) for the elements of each message that one operation is in one piece. Both ends cut it alike.
  template <class F>
  static void each_message(const program& p, const ticket& t, const buffer_view& buffer, const operation& op, std::uint32_t piece, F&& f) {
    const auto some = [&](std::size_t first, std::size_t last) {
      if (first < last) f(first, last);
    };
    if (t.pieces == 1) return some(cut(buffer, p.chunks, op.first), cut(buffer, p.chunks, op.first + op.count));
    const std::size_t length = Endpoint::piece_bytes / size_of(buffer.type);
    for (int c = op.first; c < op.first + op.count; ++c) {
      const std::size_t last = cut(buffer, p.chunks, c + 1), first = std::min(last, cut(buffer, p.chunks, c) + piece * length);
      some(first, std::min(last, first + length));
    }
  }

  static std::size_t padded(std::size_t bytes) { return (bytes + line - 1) / line * line; }
  static bool adds(const operation& op) { return op.what == operation::kind::add || op.what == operation::kind::join; }

  // Bytes that a round may bring to be added. No piece is longer than the first.
  static std::size_t arriving(const program& p, const ticket& t, const buffer_view& buffer, int round) {
    std::size_t sum = 0;
    for (const operation& op : p.round(round))
      if (adds(op))
        each_message(p, t, buffer, op, 0,
                     [&](std::size_t first, std::size_t last) { sum += padded((last - first) * size_of(buffer.type)); });
    return sum;
  }

  std::byte* at(region where, std::size_t element) const {
    return where == region::buffer ? buffer_ + element * width_ : scratch_.data() + (element - scratch_first_) * width_;
  }

  void begin(const program& p, const ticket& t, const step& s) {
    std::byte* arrival = arrivals_[slot(t, s)].data();
    endpoint_.begin(slot(t, s));
    for (const operation& op : p.round(s.round)) {
      if (op.peer == p.rank) continue;  // it brings a chunk home
      each_message(p, t, lent_[slot(t)].buffer, op, s.piece, [&](std::size_t first, std::size_t last) {
        const std::size_t bytes = (last - first) * width_;
        if (op.what == operation::kind::send) return endpoint_.send(at(op.from, first), bytes, op.peer);
        if (op.what == operation::kind::copy) return endpoint_.receive(at(op.to, first), bytes, op.peer);
        endpoint_.receive(arrival, bytes, op.peer);
        arrival += padded(bytes);
      });
    }
    endpoint_.commit();
  }

  struct elements {  // contiguous ones
    std::byte* data = nullptr;
    std::size_t count = 0;
  };

  // What is to be done with what has arrived, in the order in which it was asked for.
  void perform(const program& p, const ticket& t, const step& s) {
    const buffer_view& buffer = lent_[slot(t)].buffer;
    std::byte* arrival = arrivals_[slot(t, s)].data();
    const std::span<const operation> all = p.round(s.round);
    for (std::size_t i = 0; i < all.size(); ++i) {
      const operation& op = all[i];
      const bool joins = op.what == operation::kind::join;
      const std::size_t peers = joins ? static_cast<std::size_t>(p.size) - 1 : 1;
      std::size_t each = 0;  // bytes that each of these peers has sent
      if (adds(op)) each_message(p, t, buffer, op, s.piece, [&](std::size_t a, std::size_t b) { each += padded((b - a) * width_); });
      std::byte* from = arrival;
      each_message(p, t, buffer, op, s.piece, [&](std::size_t first, std::size_t last) {
        const elements own{at(op.own, first), last - first}, to{at(op.to, first), last - first};
        if (op.what == operation::kind::copy && op.peer == p.rank) copy(to, {at(op.from, first), last - first});
        if (op.what == operation::kind::add) fold(to, {from, last - first}, std::span(&own, 1));
        if (joins) join(p, to, own, from, each);
        if (op.divides) divide(to, t);
        if (adds(op)) from += padded((last - first) * width_);
      });
      arrival += peers * each;
      i += peers - 1;
    }
  }

  // All ranks' elements in the order of the canonical tree. Rank r completes as many partial sums as there are ones at the end of r, as a
  // binary counter does, and the last rank all there are. Sums go to where a peer's elements arrived: what is this rank's own may be on
  // its way to others.
  void join(const program& p, const elements& to, const elements& own, std::byte* arrival, std::size_t each) {
    partials_.clear();
    for (int rank = 0; rank < p.size; ++rank) {
      const bool last = rank + 1 == p.size;
      const elements leaf = rank == p.rank ? own : elements{std::exchange(arrival, arrival + each), own.count};
      const std::size_t left = last ? 0 : partials_.size() - static_cast<std::size_t>(std::countr_one(static_cast<unsigned>(rank)));
      if (!last && left == partials_.size()) {
        partials_.push_back(leaf);
        continue;
      }
      const elements sum = last ? to : rank == p.rank ? partials_.back() : leaf;
      std::reverse(partials_.begin() + static_cast<std::ptrdiff_t>(left), partials_.end());  // the smallest first
      fold(sum, leaf, std::span(partials_).subspan(left));
      partials_.resize(left);
      partials_.push_back(sum);
    }
  }

  void fold(const elements& to, const elements& leaf, std::span<const elements> partials) {
    extents_.clear();
    views_.clear();
    for (const elements& one : partials) extents_.push_back({one.data, 0, one.count});
    for (const extent& one : extents_) views_.push_back({type_, std::span(&one, 1)});
    const extent target{to.data, 0, to.count}, term{leaf.data, 0, leaf.count};
    stream().fold({type_, std::span(&target, 1)}, {type_, std::span(&term, 1)}, 1, views_);
  }

  void copy(const elements& to, const elements& from) {
    const extent target{to.data, 0, to.count}, source{from.data, 0, from.count};
    stream().copy({type_, std::span(&target, 1)}, {type_, std::span(&source, 1)});
  }

  void divide(const elements& sum, const ticket& t) {
    const extent all{sum.data, 0, sum.count};
    const buffer_view view{type_, std::span(&all, 1)};
    stream().divide(view, view, total(t));
  }

  detail::roll_call roll_;
  std::vector<contribution> lent_;  // by sequence
  std::vector<double> totals_;      // alike
  double total_ = 0;                // of the last roll
  std::uint32_t sequence_ = 0;
  bool called_ = false, open_ = false;  // the collective that runs: its roll is under way, and then its rounds
  step begun_;                          // the first step whose messages are not under way
  dtype type_ = dtype::float32;
  std::size_t width_ = 4, scratch_first_ = 0;
  bool scattered_ = false;
  std::byte* buffer_ = nullptr;  // where the buffer lies, gathered or as it was lent
  aligned_bytes gathered_, scratch_, arrivals_[2];
  std::vector<elements> partials_;
  std::vector<extent> extents_;
  std::vector<buffer_view> views_;
  Endpoint endpoint_;  // goes first: what messages may be under way in outlives it
};

}  // namespace gradsync
