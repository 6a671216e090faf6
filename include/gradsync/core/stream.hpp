// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// A stream does the local arithmetic on gradients: the few operations that everything is made of, each over lists of extents, in order.
///
/// All buffers of one call have the same type (float32 or float64) and count. `host_stream` does the work before it returns. The calls of
/// an asynchronous stream return at once, and so do its waits: they put other streams' work in order with its own, on the device. It may
/// collect operations and launch them together, as long as nobody can tell.
#pragma once

#include <type_traits>

#include "gradsync/core/buffer_view.hpp"
#include "gradsync/core/series.hpp"

namespace gradsync {

template <class S>
concept stream = requires(S& s, const buffer_view& to, const buffer_view& from, series_view<buffer_view> partials, double weight,
                          const typename S::total& total, const typename S::handle& user) {
  std::bool_constant<S::asynchronous>{};  // whether calls return before their work is done
  s.fold(to, from, weight, partials);     // to = partials[k-1] + (… + (partials[0] + from · weight)); weight 0 is the leaf -0, unread
  s.divide(to, from, weight);             // to = from / weight, rounded once; weight 0 gives +0; `to` may be `from`
  s.divide(to, from, total);              // the same by a number that may have to be computed first, where the stream's device has it
  s.copy(to, from);
  s.wait_for(user);    // what s does from now on comes after all that this stream of the user's has been given so far
  s.release_to(user);  // what that stream is given from now on comes after all that s has been given so far
};

}  // namespace gradsync
