// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// What a collective is: a few constexpr functions that say who sends which part of the buffer to whom, round by round.
///
/// A strategy cuts the buffer into chunks(size) chunks of about equal length and moves ranges of them in rounds(size) rounds. In round k
/// every rank posts its sends and its receives together; a send meets its receive in the same round, so what `verify` accepts cannot
/// deadlock. Every send carries what its rank held before the round; what arrives is in place after it. A strategy holds no state but its
/// options, allocates nothing, and may be asked for any round of any rank in any order.
///
///     struct everyone_to_rank_0 {                                      // two rounds; rank 0 adds, then spreads
///       constexpr const char* name() const { return "everyone_to_rank_0"; }
///       constexpr level claim(int) const { return level::canonical; }  // join adds in the order of the tree over ranks
///       constexpr int chunks(int) const { return 1; }
///       constexpr int rounds(int size) const { return size > 1 ? 2 : 0; }
///       template <class Post>
///       constexpr void round(int k, int rank, int size, Post&& post) const {
///         if (k == 0 && rank > 0) post(send{0, 0, 1});
///         if (k == 1 && rank > 0) post(receive{0, 0, 1, effect::copy});
///         for (int peer = 1; rank == 0 && peer < size; ++peer) {
///           if (k == 0) post(receive{peer, 0, 1, effect::join});
///           else post(send{peer, 0, 1});
///         }
///       }
///     };
///     static_assert(verify(everyone_to_rank_0{}, 5).holds());          // collective/verify.hpp
///
/// Nobody posts the division of a mean: a rank divides a chunk right after the last add or join into it, unless a copy into that chunk
/// follows on this rank. `verify` proves that each chunk is whole at that moment, and divided exactly once on its way to every rank.
#pragma once

#include <concepts>  // the concepts below
#include <cstddef>
#include <cstdint>

namespace gradsync {

/// What a rank does with chunks that arrive. Several receives of a round into one chunk are all adds or all joins.
enum class effect : std::uint8_t {
  copy,  ///< they replace what is there
  add,   ///< they are added to what is there, in the order in which the receives were posted
  join,  ///< they come from every other rank, posted by ascending peer; all are added with what is there in the order of the canonical tree
};

/// Chunks first .. first + count - 1 go to rank `to`. A pair's sends of a round meet its receives in the order in which they are posted.
struct send {
  int to, first, count;
};

/// The chunks arrive from rank `from`; the range is that of the send it meets.
struct receive {
  int from, first, count;
  effect what;
};

/// How reproducible the bits of a sum are; each level contains those before it.
enum class level : std::uint8_t {
  none,       ///< ranks may hold different bits
  agreed,     ///< the same bits on all ranks
  uniform,    ///< one order of additions for all chunks: the bits do not depend on where a value lies in the buffer
  canonical,  ///< that order is the tree over ranks with the largest power of two below p at its left, and so on downwards
};

constexpr const char* name_of(level l) {
  constexpr const char* names[] = {"none", "agreed", "uniform", "canonical"};
  return names[static_cast<int>(l)];
}

namespace detail {

struct ignore_post {  // a named type, since nvcc 13 rejects a lambda inside a requires-expression
  constexpr void operator()(send) const {}
  constexpr void operator()(receive) const {}
};

constexpr std::size_t index(int i) { return static_cast<std::size_t>(i); }

constexpr int peer_of(const send& message) { return message.to; }
constexpr int peer_of(const receive& message) { return message.from; }

}  // namespace detail

template <class S>
concept strategy = requires(const S& s, int k, int rank, int size) {
  { s.name() } -> std::same_as<const char*>;
  { s.claim(size) } -> std::same_as<level>;
  { s.chunks(size) } -> std::same_as<int>;
  { s.rounds(size) } -> std::same_as<int>;
  s.round(k, rank, size, detail::ignore_post{});
};

/// A strategy with a reduce-scatter half: after its first reduce_rounds(size) rounds each chunk is whole on the rank owner(chunk, size).
template <class S>
concept sharding = strategy<S> && requires(const S& s, int chunk, int size) {
  { s.reduce_rounds(size) } -> std::same_as<int>;
  { s.owner(chunk, size) } -> std::same_as<int>;
};

/// Whether a transport may run the whole strategy as a pass of its own: the strategy says so by `static constexpr bool fused = true`.
template <strategy S>
constexpr bool is_fused() {
  if constexpr (requires { S::fused; }) return S::fused;
  else return false;
}

/// Why the strategy does not do this number of ranks, in one sentence that lasts as long as the program; nullptr if it does. A strategy
/// that does not do all has a member `constexpr const char* refuses(int size) const`, which is asked before anything else.
template <strategy S>
constexpr const char* refusal(const S& s, int size) {
  if constexpr (requires { s.refuses(size); }) return s.refuses(size);
  else return nullptr;
}

}  // namespace gradsync
