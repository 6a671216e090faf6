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
#include <span>
#include <string>
#include <utility>

#include "gradsync/comm/program.hpp"
#include "gradsync/core/aligned_bytes.hpp"
#include "gradsync/core/buffer_view.hpp"
#include "gradsync/core/deadline.hpp"
#include "gradsync/core/error.hpp"
#include "gradsync/core/memory_space.hpp"
#include "gradsync/core/reduce_op.hpp"
#include "gradsync/core/stream.hpp"

namespace gradsync {

/// One rank's part of a sum. The buffer is lent, extents and elements, until the collective is drained.
struct contribution {
  buffer_view buffer;
  double scale = 1;      ///< the rank's elements still have to be multiplied by this (fused passes only; 1 elsewhere)
  double weight = 0;     ///< this rank's part of Σw
  int call = 0;          ///< what is asked for, the same on all ranks: 0 for gradients, else a number of the transport's own
  /// Of gradients: which bucket of its update, in order. Those of an update have one Σw, and programs that were agreed on together: where
  /// messages are needed to know the one and to compare the other, the first one's do.
  std::size_t part = 0;
};

/// Where a collective stands in its channel; the same on all ranks.
struct ticket {
  std::uint32_t sequence = 0;  ///< collectives posted before it
  std::uint32_t base = 0;      ///< ticks of all collectives before it
  std::uint32_t pieces = 1;    ///< stretches each chunk is cut into, so that a round starts before the one before it is over
};

template <class C>
concept channel = stream<typename C::stream_type> &&
    requires(C& c, const C& constant, const program& p, const contribution& mine, const ticket& t, const deadline& until) {
  { c.post(p, mine) } -> std::same_as<ticket>;
  { c.exchange(p, t, 0, std::uint32_t{}, until) } -> std::same_as<bool>;  // one piece of one round: all its sends and receives
  { c.drain(p, t, until) } -> std::same_as<bool>;                         // true: no peer touches the buffer any more
  { c.total_weight(t) } -> std::same_as<double>;                          // Σw, once it is done, while it is among the last `slots` posted
  { c.total(t) } -> std::same_as<typename C::stream_type::total>;         // Σw for its stream, which may divide by it before it is done
  { c.stream() } -> std::same_as<typename C::stream_type&>;               // where its collectives run, and what goes before and after them
  c.leave();                                                              // after a failure: waits until no peer is in this rank's memory
  { constant.scratch_bytes() } -> std::same_as<std::size_t>;              // memory of its own, for programs that need scratch
};

/// A channel that has an all-reduce of its own, which runs in place of a fused program. Where `fused_is_weighted`, it multiplies each
/// rank's elements by its scale on the way, and divides by Σw; elsewhere it only adds, and others do that before and after.
template <class C>
concept fused_channel = channel<C> && requires(C& c, const ticket& t, const deadline& until) {
  { c.reduce(t, until) } -> std::same_as<bool>;
  std::bool_constant<C::fused_is_weighted>{};
};

/// What a transport opens, and what that runs on.
template <class T>
using channel_of = decltype(std::declval<T&>().open(1));
template <class T>
using stream_of = typename channel_of<T>::stream_type;

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
  { T::space } -> std::convertible_to<memory_space>;                      // where the elements that it sums must lie
  { t.allocate(slots) } -> std::same_as<aligned_bytes>;                   // memory for so many bytes of them
  { t.compute_stream() } -> std::same_as<typename stream_of<T>::handle>;  // on which the user computes, unless he says otherwise
};

/// A rank of the transport, for errors: with its number in the whole group too, where the transport is a part of one and says it.
template <transport T>
place place_of(const T& comm, int rank, std::int64_t step = -1) {
  place p{.rank = rank, .step = step, .bucket = -1, .parameter = {}};
  if constexpr (requires { comm.place_of(rank); }) p.whole = comm.place_of(rank).whole;
  return p;
}

namespace detail {

// The root's text, for every rank.
template <transport Communicator>
std::string broadcast_text(Communicator& comm, std::string text, int root = 0) {
  text.resize(comm.broadcast(static_cast<std::uint64_t>(text.size()), root));
  comm.broadcast(std::span<char>(text.data(), text.size()), root);
  return text;
}

}  // namespace detail

}  // namespace gradsync
