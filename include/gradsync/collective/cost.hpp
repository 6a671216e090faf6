// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// How long a strategy takes, by the α-β-γ model (Thakur, Rabenseifner, Gropp 2005, section 3).
///
/// In each round a rank needs messages · α + bytes moved · β + bytes added · γ, where sending and receiving go on at the same time, so
/// that the larger of the two counts. A round takes as long as its busiest rank; rounds follow each other. The division, the copy home of
/// what ends in scratch, and whatever a fused pass saves are left out.
///
///     cost(ring{}, link{.alpha = 1e-6, .beta = 1e-10, .gamma = 2e-11}, 4, 1e6)   // 171e-6: 6 α + 1.5e6 β + 0.75e6 γ
#pragma once

#include <type_traits>

#include "gradsync/collective/schedule.hpp"
#include "gradsync/core/link.hpp"

namespace gradsync {

namespace detail {

struct traffic {
  int messages = 0, chunks = 0;

  constexpr void add(int count) {
    ++messages;
    chunks += count;
  }
};

}  // namespace detail

/// Seconds that an all-reduce of `bytes` bytes takes among `size` ranks over links that are all alike.
template <strategy S>
constexpr double cost(const S& s, const link& wire, int size, double bytes) {
  const double chunk_bytes = bytes / s.chunks(size);
  double seconds = 0;
  for (int k = 0; k < s.rounds(size); ++k) {
    double busiest = 0;
    for (int rank = 0; rank < size; ++rank) {
      detail::traffic out, in;
      int added = 0;
      s.round(k, rank, size, [&](auto message) {
        if constexpr (std::is_same_v<decltype(message), send>) {
          out.add(message.count);
        } else {
          in.add(message.count);
          if (message.what != effect::copy) added += message.count;
        }
      });
      const int messages = out.messages > in.messages ? out.messages : in.messages, moved = out.chunks > in.chunks ? out.chunks : in.chunks;
      const double time = messages * wire.alpha + chunk_bytes * (moved * wire.beta + added * wire.gamma);
      if (time > busiest) busiest = time;
    }
    seconds += busiest;
  }
  return seconds;
}

}  // namespace gradsync
