// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// In which order gradients become ready, seen in one update: what buckets are planned by from then on.
///
/// The first plan has to guess reverse model order. A model whose members are listed otherwise than it computes would keep each bucket
/// waiting for a gradient that comes late (PyTorch DDP rebuilds its buckets for the same reason, Li et al. 2020, section 4.2.1). What one
/// call marks is ready at once, so it counts in reverse model order; a model that marks layer by layer is no surprise. Ranks may see
/// different orders: rank 0's is taken, since any order is right, and all must plan alike.
///
///     order.note(parameter);  …  order.end_call();     // the marks of one update
///     make_plan(parameters, options, order.agreed(comm));
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "gradsync/comm/transport.hpp"
#include "gradsync/core/series.hpp"

namespace gradsync {

class ready_order {
 public:
  /// Watches once for each of so many parameters; 0: not at all.
  explicit ready_order(std::size_t parameters) : count_(parameters) { order_.reserve(parameters); }

  bool watches() const { return count_ > 0; }

  void note(std::size_t parameter) {
    if (watches()) order_.push_back(static_cast<std::uint32_t>(parameter));
  }
  /// What was noted since the last such call became ready at once.
  void end_call() {
    if (!watches()) return;
    std::sort(order_.begin() + static_cast<std::ptrdiff_t>(call_), order_.end(), [](auto a, auto b) { return a > b; });
    call_ = order_.size();
  }

  /// Rank 0's order, when each parameter has been noted. All ranks call it together; blocks.
  template <transport Communicator>
  std::span<const std::uint32_t> agreed(Communicator& comm) {
    comm.broadcast(std::span(order_), 0);
    return order_;
  }

  void stop() {
    count_ = 0;
    order_ = {};
  }

 private:
  std::size_t count_, call_ = 0;
  series<std::uint32_t> order_;
};

}  // namespace gradsync
