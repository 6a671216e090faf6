// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// Ring: each rank hands one chunk a round to its right neighbour, first adding on the way, then copying.
///
/// p ranks, n bytes:
///   rounds           2 (p-1)
///   sent per rank    2 n (p-1)/p bytes, one message a round
///   cost             2 (p-1) α + 2 n (p-1)/p β + n (p-1)/p γ
///   scratch          none where peers' memory can be read, else n/p
///   reproducibility  agreed: each chunk is added in another order (canonical for p ≤ 2, where all orders are alike)
///   owner            chunk c is whole on rank c after p-1 rounds
///   paper            Patarasuk, Yuan: Bandwidth optimal all-reduce algorithms for clusters of workstations, 2009
///
///     collective{comm, ring{}}
#pragma once

#include "gradsync/collective/schedule.hpp"

namespace gradsync {

struct ring {
  constexpr const char* name() const { return "ring"; }
  constexpr level claim(int size) const { return size <= 2 ? level::canonical : level::agreed; }
  constexpr int chunks(int size) const { return size; }
  constexpr int rounds(int size) const { return 2 * (size - 1); }
  constexpr int reduce_rounds(int size) const { return size - 1; }
  constexpr int owner(int chunk, int) const { return chunk; }

  template <class Post>
  constexpr void round(int k, int rank, int size, Post&& post) const {
    // A chunk starts one rank behind its owner, so that p-1 additions end on the owner, who sends it on in round p-1.
    const int chunk = (rank + 2 * size - 1 - k) % size;
    post(send{(rank + 1) % size, chunk, 1});
    post(receive{(rank + size - 1) % size, (chunk + size - 1) % size, 1, k < reduce_rounds(size) ? effect::add : effect::copy});
  }
};

static_assert(sharding<ring>);

}  // namespace gradsync
