// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// A stream does the local arithmetic on gradients: the few operations that everything is made of, each over lists of extents, in order.
///
/// All buffers of one call have the same type (float32 or float64) and count. `host_stream` does the work before it returns.
#pragma once

#include <span>

#include "gradsync/core/buffer_view.hpp"

namespace gradsync {

template <class S>
concept stream = requires(S& s, const buffer_view& to, const buffer_view& from, std::span<const buffer_view> partials, double weight) {
  s.fold(to, from, weight, partials);  // to = partials[k-1] + (… + (partials[0] + from · weight)); weight 0 is the leaf -0, unread
  s.divide(to, weight);                // to = to / weight, rounded once; weight 0 gives +0
  s.copy(to, from);
};

}  // namespace gradsync
