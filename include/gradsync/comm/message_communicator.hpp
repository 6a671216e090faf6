// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// One rank's place among ranks that pass messages: a transport over any endpoint.
///
/// All that depends on how messages travel is in its `World`, a handle that can be moved:
///
///     w.rank(), w.size(), w.place_of(rank), w.limit(), w.now()
///     w.open()                                  // an endpoint; the k-th one here meets the k-th one of every peer
///     w.next()                                  // a number that none of its messages, and those of its parts, has been marked with
///     w.part(members, rank, number)             // these ranks as a world of their own, in which this one has the number `rank`, and whose
///                                               // messages are marked with `number`
///     w.fail(cause), w.abandon(cause)           // tells the peers
///     w.failed(), w.check()                     // whether somebody has failed; throws then
///
/// Used by its rank's thread only; a channel that it opened may be driven by another, where the world allows it.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <exception>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "gradsync/comm/call.hpp"
#include "gradsync/comm/message_channel.hpp"
#include "gradsync/comm/message_values.hpp"
#include "gradsync/comm/own_values.hpp"
#include "gradsync/comm/transport.hpp"
#include "gradsync/core/aligned_bytes.hpp"
#include "gradsync/core/deadline.hpp"
#include "gradsync/core/dtype.hpp"
#include "gradsync/core/error.hpp"
#include "gradsync/core/host_stream.hpp"
#include "gradsync/core/memory_space.hpp"

namespace gradsync {

template <class World>
class message_communicator : public own_values<message_communicator<World>> {
 public:
  static constexpr bool peer_addressable = false;
  static constexpr memory_space space = memory_space::host;
  using endpoint_type = decltype(std::declval<World&>().open());

  explicit message_communicator(World world) : world_(std::move(world)), own_(world_.open()) {}

  int rank() const { return world_.rank(); }
  int size() const { return world_.size(); }
  /// A rank of this group, for errors; in a part of a group with its number there.
  place place_of(int rank) const { return world_.place_of(rank); }
  deadline limit() const { return world_.limit(); }
  std::chrono::steady_clock::time_point now() const { return world_.now(); }
  /// Whether channels may be driven by a thread other than this rank's.
  bool allows_driver_thread() const { return world_.allows_driver_thread(); }

  aligned_bytes allocate(std::size_t bytes) const { return aligned_bytes(bytes); }
  host_stream::handle compute_stream() const { return {}; }

  /// A channel for up to `slots` collectives at a time. All ranks open their channels, and split, in the same order.
  message_channel<endpoint_type> open(std::size_t slots) { return {world_.open(), slots}; }

  /// Ranks that give the same color become a group of their own, numbered by key, then by their rank here. All ranks call it.
  message_communicator split(int color, int key = 0) {
    const auto chosen = this->choose(color, key, world_.next());
    return message_communicator(world_.part(chosen.members, chosen.rank, chosen.number));
  }

  /// Whether the group has failed, of which a rank learns at its next call.
  bool failed() const { return world_.failed(); }
  /// Throws, if the group has failed, what the next call would throw.
  void check() const { world_.check(); }
  void fail(std::exception_ptr cause) { world_.fail(std::move(cause)); }
  void abandon(std::exception_ptr meanwhile) { world_.abandon(std::move(meanwhile)); }

 private:
  friend own_values<message_communicator>;

  template <class T>
  void combine(std::span<T> values, reduce_op op, int call) {
    together([&] { own_.all_reduce(values, op, call, limit()); });
  }
  void spread(const buffer_view& values, int root) {
    together([&] { own_.broadcast(values, root, limit()); });
  }

  template <class F>
  void together(F&& f) {
    try {
      f();
    } catch (...) {
      fail(std::current_exception());
      own_.leave();  // the values are lent
      throw;
    }
  }

  World world_;
  message_values<endpoint_type> own_;
};

}  // namespace gradsync
