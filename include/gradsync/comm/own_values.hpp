// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// The calls of a communicator for a user's own values in host memory, and what they have in common between threads, processes and
/// messages. A communicator derives from it and says how values travel:
///
///     class my_communicator : public own_values<my_communicator> {
///       friend own_values<my_communicator>;
///       template <class T> void combine(std::span<T> values, reduce_op op, int call);   // call: comm/call.hpp; the same bits on all ranks
///       void spread(const buffer_view& values, int root);
///     };
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "gradsync/comm/call.hpp"
#include "gradsync/core/buffer_view.hpp"
#include "gradsync/core/dtype.hpp"
#include "gradsync/core/reduce_op.hpp"
#include "gradsync/core/series.hpp"

namespace gradsync {

template <class Communicator>
class own_values {
 public:
  /// Combines `values` over all ranks, in place; the same bits on every rank. Blocks; throws as `finish()` does.
  template <element T>
  void all_reduce(std::span<T> values, reduce_op op = reduce_op::sum) {
    self().combine(values, op, detail::call_of(op));
  }
  template <element T>
  T all_reduce(T value, reduce_op op = reduce_op::sum) {
    all_reduce(std::span<T>(&value, 1), op);
    return value;
  }

  /// Gives every rank the root's values.
  template <element T>
  void broadcast(std::span<T> values, int root = 0) {
    const extent all = extent_over(values);
    broadcast(buffer_view{dtype_of<T>(), {&all, 1}}, root);
  }
  template <element T>
  T broadcast(T value, int root = 0) {
    broadcast(std::span<T>(&value, 1), root);
    return value;
  }
  void broadcast(const buffer_view& values, int root) {
    detail::expect_root(root, self().size(), self().place_of(self().rank()));
    self().spread(values, root);
  }

  /// Returns when every rank has called it.
  void barrier() { self().combine(std::span<std::uint8_t>{}, reduce_op::sum, detail::call_of_barrier); }

 protected:
  own_values() = default;

  struct split_part {
    series<int> members;  ///< the ranks that have chosen this one's color, by key, then by rank
    int rank = 0;         ///< this one's place among them
    int number = 0;       ///< the largest that any rank has given, of whatever color
  };

  /// All ranks together, for `split`.
  split_part choose(int color, int key, int number) {
    const auto at = [](int rank) { return 3 * static_cast<std::size_t>(rank); };
    const int size = self().size(), rank = self().rank();
    series<int> chosen(at(size));  // of each rank color, key and number, which it adds to zeros
    chosen[at(rank)] = color;
    chosen[at(rank) + 1] = key;
    chosen[at(rank) + 2] = number;
    self().combine(std::span<int>(chosen), reduce_op::sum, detail::call_of_split);

    split_part p;
    for (int r = 0; r < size; ++r) {
      if (chosen[at(r) + 2] > p.number) p.number = chosen[at(r) + 2];
      if (chosen[at(r)] != color) continue;
      p.members.push_back(r);
      for (std::size_t i = p.members.size() - 1; i > 0 && chosen[at(p.members[i - 1]) + 1] > chosen[at(p.members[i]) + 1]; --i)
        std::swap(p.members[i - 1], p.members[i]);
    }
    while (p.members[static_cast<std::size_t>(p.rank)] != rank) ++p.rank;
    return p;
  }

 private:
  Communicator& self() { return static_cast<Communicator&>(*this); }
};

}  // namespace gradsync
