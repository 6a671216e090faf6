// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// Recursive doubling: in each round two ranks add what the other has, neighbours first, and both hold the sum. The fewest rounds there can
/// be when a rank talks to one other at a time, each with all the bytes: for short buffers.
///
/// Other numbers of ranks than powers of two are split into blocks that are (13 = 8 + 4 + 1, contiguous ranks, the largest first), and each
/// block doubles on its own. When one is done, so are all R ranks behind it; then block and rest add each other's sum: rank i of the B
/// ranks takes that of rank i mod R of the rest, which takes that of rank i mod R of the block. Neighbours first, and smaller blocks at
/// the right, make the order of additions the canonical tree.
///
/// p ranks, n bytes:
///   rounds           ceil(log2 p); programs copy home in one more where a rank adds in an odd number of rounds
///   sent per rank    n log2 p bytes for powers of two; else some rank of the rest sends ceil(B/R) times n in the round after block B
///   cost             log2 p (α + n β + n γ) for powers of two; else ceil(log2 p) n γ, and α + n β for each round k, but ceil(B/R) times
///                    that where p has a block of B = 2^k ranks with R = p mod B > 0 behind it
///   scratch          n: the second place of the only chunk; as much where peers' memory can't be read
///   reproducibility  canonical for every p
///   owner            none: there is no reduce-scatter half
///   paper            Thakur, Rabenseifner, Gropp: Optimization of collective communication operations in MPICH, 2005 (powers of two; the
///                    blocks are those of halving_doubling)
///
///     collective{comm, recursive_doubling{}}
#pragma once

#include <bit>  // powers of two

#include "gradsync/collective/schedule.hpp"

namespace gradsync {

struct recursive_doubling {
  constexpr const char* name() const { return "recursive_doubling"; }
  constexpr level claim(int) const { return level::canonical; }
  constexpr int chunks(int) const { return 1; }
  constexpr int rounds(int size) const { return static_cast<int>(std::bit_width(static_cast<unsigned>(size - 1))); }

  template <class Post>
  constexpr void round(int k, int rank, int size, Post&& post) const {
    const int distance = 1 << k;
    const auto give = [&](int peer) { post(send{peer, 0, 1}); };
    const auto take = [&](int peer) { post(receive{peer, 0, 1, effect::add}); };
    // From block to block, up to the rank's own or to one that is done with its doubling and meets all that are behind it.
    for (int first = 0, block = power_below(size);; first += block, block = power_below(size - first)) {
      const int rest = size - first - block, i = rank - first;  // rank i of the block, or i - block of the rest
      if (i < block && distance < block) {
        give(first + (i ^ distance));
        take(first + (i ^ distance));
      } else if (i < block && distance == block && rest > 0) {
        take(first + block + i % rest);
        if (i < rest) give(first + block + i);
      } else if (i >= block && distance == block) {
        take(rank - block);
        for (int to = i - block; to < block; to += rest) give(first + to);
      }
      if (i < block || distance == block) return;
    }
  }

 private:
  static constexpr int power_below(int n) { return static_cast<int>(std::bit_floor(static_cast<unsigned>(n))); }  // or equal
};

static_assert(strategy<recursive_doubling> && !sharding<recursive_doubling>);

}  // namespace gradsync
