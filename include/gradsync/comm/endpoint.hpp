// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// What transports that pass messages bring along: an endpoint sends bytes to peers and receives bytes from them, in batches.
///
///     e.begin(0);  e.send(memory, 4096, right);  e.receive(other, 4096, left);  e.commit();
///     while (!e.arrived(0, deadline::poll())) compute_something_else();
///
/// All messages of a batch are under way together. Two batches may be, so there are two slots for them. Nothing is asked of the order of
/// messages but that the k-th one that a rank sends to a peer is the k-th one that the peer receives from it, in every batch and over
/// batches; the two agree on its length. comm/message_channel.hpp makes a channel of an endpoint, comm/message_values.hpp the calls for a
/// user's own values.
#pragma once

#include <concepts>
#include <cstddef>
#include <string>

#include "gradsync/core/aligned_bytes.hpp"
#include "gradsync/core/deadline.hpp"
#include "gradsync/core/error.hpp"
#include "gradsync/core/stream.hpp"

namespace gradsync {

template <class E>
concept endpoint = stream<typename E::stream_type> && !E::stream_type::asynchronous && std::movable<E> &&
    requires(E& e, const E& constant, std::byte* to, const std::byte* from, std::size_t bytes, int peer, unsigned slot,
             const deadline& until) {
  { E::piece_bytes } -> std::convertible_to<std::size_t>;  // longer chunks travel in pieces of so many bytes, one after the other
  { constant.rank() } -> std::same_as<int>;
  { constant.size() } -> std::same_as<int>;
  { constant.name(peer) } -> std::same_as<std::string>;      // of a rank, for errors
  { constant.here() } -> std::same_as<place>;                // this rank, for errors
  { e.stream() } -> std::same_as<typename E::stream_type&>;  // adds up what has arrived
  { e.allocate(bytes) } -> std::same_as<aligned_bytes>;      // memory for messages
  e.begin(slot);                                             // a batch, in slot 0 or 1; the slot's last one has arrived
  e.send(from, bytes, peer);                                 // at least one byte, unchanged until the batch has arrived
  e.receive(to, bytes, peer);                                // the same, untouched
  e.commit();                                                // the batch is complete, and on its way
  { e.arrived(slot, until) } -> std::same_as<bool>;          // all of its messages, sent and received; throws as a channel does
  e.leave();                                                 // after a failure: no message under way looks at its memory any more
};

namespace detail {

/// f(offset, bytes) for each part of a message that is too long for one: `most` bytes each, the last one shorter.
template <class F>
void each_part(std::size_t bytes, std::size_t most, F&& f) {
  for (std::size_t at = 0, n; at < bytes; at += n) f(at, n = bytes - at < most ? bytes - at : most);
}

}  // namespace detail
}  // namespace gradsync
