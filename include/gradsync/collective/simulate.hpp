// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// Runs a strategy in virtual time: how long an all-reduce takes on a cluster that is not there, and what a late rank costs.
///
/// Each rank walks through its rounds as `run` does, at its own pace. It posts a round when the one before is over, and moves its bytes
/// once all peers of the round have posted theirs: so does the thread transport, which looks for its peers before it reads, and so does a
/// group of NCCL sends and receives, whose ends wait for each other. From then on it takes what `cost` takes for one rank: α + bytes · β
/// for each message it sends, or for those it receives if that is more, and bytes · γ for what it adds. A message has the link of the
/// innermost tier that holds both ends (core/topology.hpp). At shared network cards it queues for bytes · β, in the order in which
/// messages become ready, and is over for both ends when the cards on its way are through with it. Chunks are those that `cut` makes; a
/// message is what the strategy posts, although `compile` may join two of them.
///
/// So on a flat topology `simulate` is at most `cost`, which lets no rank run ahead, and equal to it where all ranks are equally busy and
/// chunks equally long: ring, native, halving_doubling among a power of two. Left out, as there: the division, and what a fused pass
/// saves. That several messages of a round keep a port busy without a gap is the best a transport can do (Gonzalez, Sahni: Open shop
/// scheduling to minimize finish time, 1976).
///
/// No threads, no clock: the same result every time. Among 16,384 ranks, on one core of an EPYC (2026-11, g++ -O2): tree and
/// halving_doubling 0.04 s, with shared cards 0.1 s; the 2^29 messages of ring 16 s, those of native 12 s.
///
///     const simulation s = simulate(ring{}, flat({.alpha = 5e-6, .beta = 1 / 25e9, .gamma = 0}), 1024, 100 << 20);
///     s.seconds, s.rounds.front(), s.tiers[0].bytes, s.busiest ...
#pragma once

#include <algorithm>  // heaps
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>  // a message is a send or a receive
#include <utility>

#include "gradsync/collective/schedule.hpp"
#include "gradsync/core/buffer_view.hpp"
#include "gradsync/core/error.hpp"
#include "gradsync/core/link.hpp"
#include "gradsync/core/series.hpp"
#include "gradsync/core/topology.hpp"

namespace gradsync {

/// What became of an all-reduce. All times in seconds from the start.
struct simulation {
  struct traffic {
    std::uint64_t messages = 0, bytes = 0;
  };

  double seconds = 0;                                ///< when the last rank is through
  series<double> ranks;                              ///< when each rank is through
  series<double> rounds;                             ///< when the last rank is through each round
  std::array<traffic, topology::max_tiers> tiers{};  ///< what took the links of each tier
  int busiest = 0;                                   ///< the rank that moves and adds longest, waits left out; the first of several
  double busy = 0;                                   ///< how long it does
};

namespace detail {

template <strategy S>
class virtual_time {
 public:
  virtual_time(const S& s, const topology& where, std::span<const double> late, std::size_t bytes)
      : strategy_(s), where_(where), size_(static_cast<int>(late.size())), rounds_(s.rounds(size_)), ranks_(late.size()) {
    const extent all{nullptr, 0, bytes};
    for (int c = 0; c <= s.chunks(size_); ++c) cuts_.push_back(cut({dtype::uint8, {&all, 1}}, s.chunks(size_), c));
    for (int t = 0; t < where.outermost(); ++t)
      if (where.tiers[t].nics > 0) nics_[index(t)].resize(static_cast<std::size_t>(where.nic_of(size_ - 1, t)) + 1);
    for (const auto& of_tier : nics_) by_time_ = by_time_ || !of_tier.empty();
    result_.rounds.resize(index(rounds_));
    for (int rank = size_; rank-- > 0; push(rank)) ranks_[index(rank)].posted = late[index(rank)];
  }

  simulation run() {
    while (!next_.empty())
      if (const int rank = pop(); ranks_[index(rank)].round < rounds_) post(rank);
    for (int rank = 0; rank < size_; ++rank) {
      const state& r = ranks_[index(rank)];
      if (r.round < rounds_) refuse(rank);
      result_.ranks.push_back(r.posted);
      result_.seconds = std::max(result_.seconds, r.posted);
      if (r.busy > result_.busy * (1 + 1e-9)) result_.busiest = rank, result_.busy = r.busy;
    }
    return std::move(result_);
  }

 private:
  static constexpr int not_posted = -1;

  struct state {
    double posted = 0;                  // when it posts its round
    double start = 0;                   // when the last of its peers does
    double port = 0, added = 0;         // seconds that the round's messages and additions take
    double carded = 0;                  // when the last of its messages up to now is through the network cards
    double busy = 0;                    // seconds of work in the rounds before
    int round = 0, waits = not_posted;  // for so many messages of the round whose other end is not posted
  };

  struct tally {
    double sent = 0, received = 0, added = 0;  // seconds
    int waits = 0;
  };

  struct nic {
    double out = 0, in = 0;  // free from then on
  };

  // The ranks whose next round is to be posted. Times depend on peers alone, so any order gives the same; but shared cards serve first who
  // comes first, and then ranks post in the order of time.
  void push(int rank) {
    next_.push_back(std::pair<double, int>(ranks_[index(rank)].posted, rank));
    if (by_time_) std::push_heap(next_.begin(), next_.end(), later);
  }
  int pop() {
    if (by_time_) std::pop_heap(next_.begin(), next_.end(), later);
    const int rank = next_.back().second;
    next_.pop_back();
    return rank;
  }
  static bool later(const std::pair<double, int>& a, const std::pair<double, int>& b) { return a > b; }

  void post(int rank) {
    state& me = ranks_[index(rank)];
    me.start = me.posted;
    tally now;
    strategy_.round(me.round, rank, size_, [&](auto message) {
      if (!fits(message)) refuse(rank);
      count(rank, message, now);
    });
    me.port = std::max(now.sent, now.received);
    me.added = now.added;
    me.waits = now.waits;
    if (now.waits == 0) finish(rank);
  }

  template <class Message>
  bool fits(const Message& message) const {
    const int peer = peer_of(message);
    return peer >= 0 && peer < size_ && message.first >= 0 && message.count >= 0 &&
           index(message.first) + index(message.count) < cuts_.size();
  }

  // Adds a message to the round that `rank` is posting. If its other end is posted, too, both know when it can start.
  template <class Message>
  void count(int rank, const Message& message, tally& now) {
    constexpr bool sends = std::is_same_v<Message, send>;
    const int peer = peer_of(message), t = where_.tier_between(rank, peer);
    const link& wire = where_.tiers[t].wire;
    const std::size_t bytes = cuts_[index(message.first + message.count)] - cuts_[index(message.first)];
    const double moving = static_cast<double>(bytes) * wire.beta;
    (sends ? now.sent : now.received) += wire.alpha + moving;
    if constexpr (sends) {
      ++result_.tiers[index(t)].messages;
      result_.tiers[index(t)].bytes += bytes;
    } else if (message.what != effect::copy) {
      now.added += static_cast<double>(bytes) * wire.gamma;
    }
    state &me = ranks_[index(rank)], &other = ranks_[index(peer)];
    if (other.round != me.round || other.waits == not_posted) {
      ++now.waits;
      return;
    }
    me.start = std::max(me.start, other.posted);
    other.start = std::max(other.start, me.posted);
    if (by_time_) {
      const double through = pass_cards(sends ? rank : peer, sends ? peer : rank, t, moving) + wire.alpha;
      me.carded = std::max(me.carded, through);
      other.carded = std::max(other.carded, through);
    }
    if (--other.waits == 0) finish(peer);
  }

  // When a message that takes `moving` seconds on a link of tier t, and is ready now, is through the cards at all borders it crosses.
  double pass_cards(int from, int to, int t, double moving) {
    const double now = std::max(ranks_[index(from)].posted, ranks_[index(to)].posted);
    double through = now;
    for (int inner = 0; inner < t; ++inner) {
      if (nics_[index(inner)].empty()) continue;
      double& out = nics_[index(inner)][static_cast<std::size_t>(where_.nic_of(from, inner))].out;
      double& in = nics_[index(inner)][static_cast<std::size_t>(where_.nic_of(to, inner))].in;
      out = std::max(out, now) + moving;
      in = std::max(in, now) + moving;
      through = std::max({through, out, in});
    }
    return through;
  }

  void finish(int rank) {
    state& r = ranks_[index(rank)];
    r.busy += r.port + r.added;
    r.posted = std::max(r.start + r.port, r.carded) + r.added;
    result_.rounds[index(r.round)] = std::max(result_.rounds[index(r.round)], r.posted);
    r.waits = not_posted;
    ++r.round;
    push(rank);
  }

  [[noreturn]] void refuse(int rank) const {
    throw usage_error(std::string("strategy ") + strategy_.name() + " on " + std::to_string(size_) + " ranks: what rank " +
                      std::to_string(rank) + " posts in round " + std::to_string(ranks_[index(rank)].round) +
                      " has no other end; ask verify what is wrong");
  }

  const S& strategy_;
  const topology& where_;
  int size_, rounds_;
  series<state> ranks_;
  series<std::size_t> cuts_;  // where chunks begin, in bytes
  std::array<series<nic>, topology::max_tiers> nics_;
  bool by_time_ = false;                 // some cards are shared
  series<std::pair<double, int>> next_;  // a heap if by_time_, else a stack
  simulation result_;
};

}  // namespace detail

/// An all-reduce of `bytes` bytes in which rank r begins late[r] seconds after the start; it has as many ranks as `late` has entries.
/// `usage_error` if the topology or the strategy refuses so many, if a delay is negative, or if the strategy's messages have no other end
/// (`verify` proves that they do).
template <strategy S>
simulation simulate(const S& s, const topology& where, std::span<const double> late, std::size_t bytes) {
  const int size = static_cast<int>(late.size());
  if (const char* why = where.refuses(size)) throw usage_error(std::string("simulate: ") + why);
  if (const char* why = refusal(s, size))
    throw usage_error(std::string("strategy ") + s.name() + " on " + std::to_string(size) + " ranks: " + why);
  for (const double delay : late)
    if (!(delay >= 0)) throw usage_error("simulate: a rank cannot begin before the start; give the others a delay");
  return detail::virtual_time<S>(s, where, late, bytes).run();
}

/// All `size` ranks begin together.
template <strategy S>
simulation simulate(const S& s, const topology& where, int size, std::size_t bytes) {
  return simulate(s, where, series<double>(detail::index(std::max(size, 0))), bytes);
}

}  // namespace gradsync
