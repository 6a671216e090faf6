// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// A strategy at one number of ranks, without its type: what proof, compiler, costs and tables look at, so that they are compiled once and
/// not once for each strategy.
///
/// A strategy posts each message by a call that the compiler can inline; here a round is a list of messages instead, and to ask for one is
/// a virtual call. That is right where each message is looked at for a while, and in constant expressions too.
///
///     const erased_strategy<ring> four(ring{}, 4);
///     series<message> posted;
///     four.post(0, 2, posted);                         // what rank 2 posts in round 0: a send to rank 3, a receive from rank 1
///     verify(four).holds() && compile(four, 2, placement(four)).rounds() == four.rounds
#pragma once

#include "gradsync/collective/schedule.hpp"
#include "gradsync/core/series.hpp"

namespace gradsync {

/// What `rank` sends to `peer` or receives from it: chunks first .. first + count - 1.
struct message {
  int rank = 0, peer = 0, first = 0, count = 0;
  effect what = effect::copy;  ///< of a receive
  bool sends = false;
};

/// Asked of the strategy once. Of a number of ranks that it refuses, or below 1, only the name and the refusal are known.
struct any_strategy {
  const char* name;
  int size;                       ///< ranks
  const char* refusal = nullptr;  ///< why it does not do so many
  bool fused = false;
  level claim = level::none;
  int chunks = 0, rounds = 0;

  /// Adds what `rank` posts in round k to `posted`, in that order.
  virtual constexpr void post(int k, int rank, series<message>& posted) const = 0;

 protected:
  constexpr any_strategy(const char* its_name, int ranks) : name(its_name), size(ranks) {}
  constexpr any_strategy(const any_strategy&) = default;
  constexpr any_strategy& operator=(const any_strategy&) = default;
  constexpr ~any_strategy() = default;
};

namespace detail {

struct post_to {
  int rank;
  series<message>& posted;

  constexpr void operator()(send m) const { posted.push_back({rank, m.to, m.first, m.count, effect::copy, true}); }
  constexpr void operator()(receive m) const { posted.push_back({rank, m.from, m.first, m.count, m.what, false}); }
};

}  // namespace detail

/// Holds a copy of the strategy.
template <strategy S>
struct erased_strategy final : any_strategy {
  constexpr erased_strategy(const S& s, int ranks) : any_strategy(s.name(), ranks), typed(s) {
    if (ranks < 1) return;
    refusal = gradsync::refusal(s, ranks);
    if (refusal != nullptr) return;
    fused = is_fused<S>();
    claim = s.claim(ranks);
    chunks = s.chunks(ranks);
    rounds = s.rounds(ranks);
  }

  constexpr void post(int k, int rank, series<message>& posted) const override {
    typed.round(k, rank, size, detail::post_to{rank, posted});
  }

  S typed;
};

namespace detail {

/// Where a rank divides a chunk: in which round, and after which of its receives there; -1 where it does not.
struct division {
  int round = -1, receive = -1;
};

/// The rule of the division, which `verify` proves and `compile` follows. `of_chunk` has an entry for each chunk, all of them new.
constexpr void find_divisions(const any_strategy& s, int rank, division* of_chunk) {
  series<message> posted;
  for (int k = 0; k < s.rounds; ++k) {
    posted.clear();
    s.post(k, rank, posted);
    int i = 0;
    for (const message& m : posted) {
      if (m.sends) continue;
      const bool inside = m.first >= 0 && m.first < s.chunks && m.count <= s.chunks - m.first;  // not verified yet
      for (int c = m.first; inside && c < m.first + m.count; ++c) of_chunk[c] = m.what == effect::copy ? division{} : division{k, i};
      ++i;
    }
  }
}

}  // namespace detail

}  // namespace gradsync
