// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// What a collective needs of the world: a transport gives each rank its place among its peers, and channels to meet them on.
///
/// A channel is one ordered sequence of collectives: all ranks post to it in the same order. `post` lends a buffer and never waits; the
/// rounds of its program are then driven one after the other, by whichever thread likes to. Each call that may have to wait takes a
/// deadline: polling, it returns false instead of waiting and can be called again; otherwise it returns true, or throws `timeout_error`,
/// or `transport_error` when a peer failed, or `mismatch_error` when a peer posted something else.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <exception>

#include "gradsync/comm/program.hpp"
#include "gradsync/core/buffer_view.hpp"
#include "gradsync/core/deadline.hpp"
#include "gradsync/core/error.hpp"
#include "gradsync/core/reduce_op.hpp"

namespace gradsync {

/// One rank's part of a sum. The buffer is lent, extents and elements, until the collective is drained.
struct contribution {
  buffer_view buffer;
  double scale = 1;   ///< the rank's elements still have to be multiplied by this (fused passes only; 1 elsewhere)
  double weight = 0;  ///< this rank's part of Σw
  int call = 0;       ///< what is asked for, the same on all ranks: 0 for gradients, else a number of the transport's own
};

/// Where a collective stands in its channel; the same on all ranks.
struct ticket {
  std::uint32_t sequence = 0;  ///< collectives posted before it
  std::uint32_t base = 0;      ///< ticks of all collectives before it
  std::uint32_t pieces = 1;    ///< stretches each chunk is cut into, so that a round starts before the one before it is over
};

template <class C>
concept channel = requires(C& c, const C& constant, const program& p, const contribution& mine, const ticket& t, const deadline& until) {
  { c.post(p, mine) } -> std::same_as<ticket>;
  { c.exchange(p, t, 0, std::uint32_t{}, until) } -> std::same_as<bool>;  // one piece of one round: all its sends and receives
  { c.drain(p, t, until) } -> std::same_as<bool>;                         // true: no peer touches the buffer any more
  { c.total_weight(t) } -> std::same_as<double>;                          // Σw, once it is done, while it is among the last `slots` posted
  c.leave();                                                              // after a failure: waits until no peer is in this rank's memory
  { constant.scratch_bytes() } -> std::same_as<std::size_t>;              // memory of its own, for programs that need scratch
};

/// A channel that has an all-reduce of its own, in the canonical order, which runs in place of a fused program.
template <class C>
concept fused_channel = channel<C> && requires(C& c, const ticket& t, const deadline& until) {
  { c.reduce(t, until) } -> std::same_as<bool>;
};

template <class T>
concept transport = requires(T& t, std::exception_ptr cause, int& value, std::size_t slots) {
  { t.rank() } -> std::convertible_to<int>;
  { t.size() } -> std::convertible_to<int>;
  { t.open(slots) } -> channel;             // all ranks open their channels in the same order; `slots` collectives may be under way in it
  { t.limit() } -> std::same_as<deadline>;  // the deadline of a wait that begins now
  t.fail(cause);                            // ends every rank's waits with this root cause
  t.abandon(cause);                         // the same while unwinding, until the real cause is known
  { t.all_reduce(value, reduce_op::max) } -> std::same_as<int>;
  { t.broadcast(value, 0) } -> std::same_as<int>;
  t.barrier();
};

/// A rank of the transport, for errors: with its number in the whole group too, where the transport is a part of one and says it.
template <transport T>
place place_of(const T& comm, int rank, std::int64_t step = -1) {
  place p{.rank = rank, .step = step, .bucket = -1, .parameter = {}};
  if constexpr (requires { comm.place_of(rank); }) p.whole = comm.place_of(rank).whole;
  return p;
}

}  // namespace gradsync
