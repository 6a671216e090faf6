// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// A user's own values over ranks that pass messages: losses, counts, flags, the first weights. The same bits as over threads: values are
/// added in the canonical tree over ranks, on each rank or once.
///
/// p ranks, n bytes of values:
///   n up to 32    one round: they travel with the roll call (comm/roll_call.hpp), and every rank adds them all
///   longer        2 log2(p) rounds more: up and down a binomial tree, n bytes on each of its edges
///
///     message_values<endpoint> own(some_endpoint);
///     own.all_reduce(std::span(losses), reduce_op::sum, call, until);
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "gradsync/comm/call.hpp"
#include "gradsync/comm/endpoint.hpp"
#include "gradsync/comm/roll_call.hpp"
#include "gradsync/core/arithmetic.hpp"
#include "gradsync/core/buffer_view.hpp"
#include "gradsync/core/dtype.hpp"
#include "gradsync/core/reduce_op.hpp"

namespace gradsync {

template <endpoint Endpoint>
class message_values {
 public:
  explicit message_values(Endpoint own) : roll_(own.size()), endpoint_(std::move(own)) {}

  /// Combines the values in place. `call` is what other ranks must have called too. Blocks; throws as a channel does.
  template <element T>
  void all_reduce(std::span<T> values, reduce_op op, int call, const deadline& until) {
    switch (op) {
      case reduce_op::sum: return combine<reduce_op::sum>(values, call, until);
      case reduce_op::min: return combine<reduce_op::min>(values, call, until);
      default: return combine<reduce_op::max>(values, call, until);
    }
  }

  /// Gives every rank the root's values, whatever pieces they lie in.
  void broadcast(const buffer_view& values, int root, const deadline& until) {
    const detail::request asked{detail::call_of_broadcast(root), values.count(), values.type};
    const bool whole = values.extents.size() == 1, mine = endpoint_.rank() == root;
    if (!whole) memory_.resize(values.bytes());
    const std::span<std::byte> all = whole ? std::span(values.extents[0].data, values.bytes()) : std::span(memory_);
    if (!whole && mine) each_piece(values, [&](std::byte* piece, std::size_t at, std::size_t n) { std::memcpy(&all[at], piece, n); });
    if (call(asked, all, until)) copy(all, roll_.of(root).values.data());
    else spread(all, root, until);
    if (!whole && !mine) each_piece(values, [&](std::byte* piece, std::size_t at, std::size_t n) { std::memcpy(piece, &all[at], n); });
  }

  void leave() { endpoint_.leave(); }

 private:
  // Calls the roll. Whether the values were so few that they have come with it.
  bool call(const detail::request& asked, std::span<const std::byte> values, const deadline& until) {
    detail::roll_call::entry mine{.count = asked.count, .call = asked.call, .type = asked.type};
    const bool fits = values.size() <= detail::roll_call::room;
    if (fits) copy(std::span(mine.values), values);
    roll_.begin(endpoint_, mine);
    roll_.answered(endpoint_, {}, until);
    return fits;
  }

  template <reduce_op Op, class T>
  void combine(std::span<T> values, int asked, const deadline& until) {
    const std::span<std::byte> bytes = std::as_writable_bytes(values);
    if (!call({asked, values.size(), dtype_of<T>()}, bytes, until)) return up_and_down<Op>(values, until);
    std::vector<T*> at;
    for (int rank = 0; rank < endpoint_.size(); ++rank) at.push_back(reinterpret_cast<T*>(roll_.of(rank).values.data()));
    reduce_all<Op>(at.data(), endpoint_.size(), values.size());
    copy(bytes, roll_.of(endpoint_.rank()).values.data());
  }

  // In each round the sums of neighbouring stretches of ranks meet at the first rank of the lower one: the canonical tree.
  template <reduce_op Op, class T>
  void up_and_down(std::span<T> values, const deadline& until) {
    const int rank = endpoint_.rank(), size = endpoint_.size();
    const std::span<std::byte> bytes = std::as_writable_bytes(values);
    if (rank % 2 == 0) memory_.resize(bytes.size());
    T* const other = reinterpret_cast<T*>(memory_.data());
    for (int distance = 1; distance < size && rank % distance == 0; distance *= 2) {
      if (rank % (2 * distance) != 0) {
        message([&] { endpoint_.send(bytes.data(), bytes.size(), rank - distance); }, until);
      } else if (rank + distance < size) {
        message([&] { endpoint_.receive(memory_.data(), bytes.size(), rank + distance); }, until);
        for (std::size_t i = 0; i < values.size(); ++i) values[i] = apply<Op>(values[i], other[i]);
      }
    }
    spread(bytes, 0, until);
  }

  // Down the binomial tree that has the root at its top.
  void spread(std::span<std::byte> bytes, int root, const deadline& until) {
    const int size = endpoint_.size(), rank = (endpoint_.rank() - root + size) % size;  // counted from the root
    const auto peer = [&](int counted) { return (counted + root) % size; };
    int below = 1;  // ranks that hang on this one, and itself
    while (below < size && rank % (2 * below) == 0) below *= 2;
    if (rank != 0) message([&] { endpoint_.receive(bytes.data(), bytes.size(), peer(rank - below)); }, until);
    message(
        [&] {
          for (int distance = below / 2; distance > 0; distance /= 2)
            if (rank + distance < size) endpoint_.send(bytes.data(), bytes.size(), peer(rank + distance));
        },
        until);
  }

  template <class F>
  void message(F&& post, const deadline& until) {
    endpoint_.begin(0);
    post();
    endpoint_.commit();
    endpoint_.arrived(0, until);
  }

  static void copy(std::span<std::byte> to, std::span<const std::byte> from) { copy(to.first(from.size()), from.data()); }
  static void copy(std::span<std::byte> to, const std::byte* from) {
    if (!to.empty()) std::memcpy(to.data(), from, to.size());
  }

  template <class F>
  static void each_piece(const buffer_view& values, F&& f) {
    const std::size_t width = size_of(values.type);
    for (const extent& e : values.extents)
      if (e.count > 0) f(e.data, e.first * width, e.count * width);
  }

  // What messages may be under way in outlives the endpoint, which gives them up.
  detail::roll_call roll_;
  std::vector<std::byte> memory_;
  Endpoint endpoint_;
};

}  // namespace gradsync
