// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// Native: each rank owns one slice, adds up all ranks' copies of it, and gives the result to all.
///
/// This is the order of additions of the thread transport's fused pass (read all p inputs of the own slice, add them in registers in the
/// order of the canonical tree, write all p outputs), written down so that it is proved like any other. Transports that have no such pass
/// run the two rounds as they stand.
///
/// p ranks, n bytes:
///   rounds           2
///   sent per rank    2 n (p-1)/p bytes, p-1 messages a round
///   cost             2 (p-1) α + 2 n (p-1)/p β + n (p-1)/p γ by messages; the fused pass moves 2 n bytes of memory a rank, the optimum
///   scratch          none where peers' memory can be read, else n (p-1)/p
///   reproducibility  canonical for every p
///   owner            chunk c is whole on rank c after one round
///   paper            the pairwise exchange of Thakur, Rabenseifner, Gropp: Optimization of collective communication operations in MPICH,
///                    2005, with all its steps in one round
///
///     collective{comm, native{}}
#pragma once

#include "gradsync/collective/schedule.hpp"

namespace gradsync {

struct native {
  static constexpr bool fused = true;

  constexpr const char* name() const { return "native"; }
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

static_assert(sharding<native> && is_fused<native>());

}  // namespace gradsync
