// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// The one loop that moves bytes: walks a rank's program over a channel, piece by piece, round by round.
///
/// It can stop wherever a peer is not ready yet and go on later, from the same or another thread:
///     while (!run(program, channel, at, deadline::poll())) compute_something_else();
#pragma once

#include <cstdint>

#include "gradsync/comm/program.hpp"
#include "gradsync/comm/transport.hpp"
#include "gradsync/core/error.hpp"

namespace gradsync {

/// How far a collective has come on this rank.
struct cursor {
  ticket place;  ///< what `post` gave
  int round = 0;
  std::uint32_t piece = 0;
};

/// Goes on from `at`. True when this rank's part is done (its peers may still be reading or writing: see `drain`), false when `until` is a
/// poll and a peer is not ready. Throws what the channel throws.
template <channel C>
bool run(const program& p, C& channel, cursor& at, const deadline& until) {
  if (p.fused) {
    if constexpr (fused_channel<C>) {
      if (at.round == 0 && !channel.reduce(at.place, until)) return false;
      at.round = 1;  // the pass is the only round; it is not run twice
      return true;
    } else throw usage_error("this transport has no fused all-reduce; choose a strategy of rounds, such as halving_doubling");
  }
  // Not <, which nvcc 13 takes for the beginning of template arguments.
  for (; at.round != p.rounds(); ++at.round, at.piece = 0)
    for (; at.piece != at.place.pieces; ++at.piece)
      if (!channel.exchange(p, at.place, at.round, at.piece, until)) return false;
  return true;
}

}  // namespace gradsync
