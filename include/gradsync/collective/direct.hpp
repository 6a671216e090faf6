// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// Direct: each rank owns one slice, adds up all ranks' copies of it, and gives the result to all. Two rounds with as few bytes as any
/// strategy needs; but a rank sends a message to every other, so it is for few ranks.
///
/// p ranks, n bytes:
///   rounds           2
///   sent per rank    2 n (p-1)/p bytes, p-1 messages a round
///   cost             2 (p-1) α + 2 n (p-1)/p β + n (p-1)/p γ
///   scratch          none where peers' memory can be read, else n (p-1)/p
///   reproducibility  canonical for every p
///   owner            chunk c is whole on rank c after one round
///   paper            the pairwise exchange of Thakur, Rabenseifner, Gropp: Optimization of collective communication operations in MPICH,
///                    2005, with all its steps in one round
///
///     collective{comm, direct{}}
#pragma once

#include "gradsync/collective/schedule.hpp"

namespace gradsync {

struct direct {
  constexpr const char* name() const { return "direct"; }
  constexpr level claim(int) const { return level::canonical; }
  constexpr int chunks(int size) const { return size; }
  constexpr int rounds(int size) const { return size > 1 ? 2 : 0; }
  constexpr int reduce_rounds(int size) const { return size > 1 ? 1 : 0; }
  constexpr int owner(int chunk, int) const { return chunk; }

  template <class Post>
  constexpr void round(int k, int rank, int size, Post&& post) const {
    for (int peer = 0; peer < size; ++peer) {
      if (peer == rank) continue;
      post(send{peer, k == 0 ? peer : rank, 1});
      post(receive{peer, k == 0 ? rank : peer, 1, k == 0 ? effect::join : effect::copy});
    }
  }
};

static_assert(sharding<direct>);

}  // namespace gradsync
