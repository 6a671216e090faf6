// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// Recursive halving and doubling: in each round a rank keeps half of its range and adds the other copy of it, neighbours first; then the
/// same way back. The few rounds of a tree with the few bytes of a ring.
///
/// Other numbers of ranks than powers of two are split into blocks that are (13 = 8 + 4 + 1, contiguous ranks, the largest first). Each
/// block halves on its own; when one is done, the next smaller block hands it its sums (rank i of B ranks to every i' of the larger block
/// with i' mod B = i, to each the range that i' holds), and so on up to the largest block; the results return the same way. Neighbours
/// first, and smaller blocks at the right, make the order of additions the canonical tree.
///
/// p ranks, n bytes, blocks B0 > B1 > ...:
///   rounds           2 ceil(log2 p)
///   sent per rank    2 n (p-1)/p bytes for powers of two; else rank 0 sends 2 n - n/B0, and no rank more than 2 n
///   cost             2 log2 p α + 2 n (p-1)/p β + n (p-1)/p γ for powers of two; else that of B0 ranks, and for each pair of neighbouring
///                    blocks B > C two rounds of B/C (α + n/B β), each in place of a round of B0 unless B = B0 (for γ ≤ β)
///   scratch          none where peers' memory can be read, else n/2
///   reproducibility  canonical for every p
///   owner            the ranks of the largest block: chunk c is whole on rank bit-reverse(c) after ceil(log2 p) rounds
///   papers           Rabenseifner: Optimization of collective reduction operations, 2004 (halving and doubling, binary blocks);
///                    Thakur, Rabenseifner, Gropp: Optimization of collective communication operations in MPICH, 2005
///
///     collective{comm, halving_doubling{}}
#pragma once

#include <bit>  // powers of two

#include "gradsync/collective/schedule.hpp"

namespace gradsync {

struct halving_doubling {
  constexpr const char* name() const { return "halving_doubling"; }
  constexpr level claim(int) const { return level::canonical; }
  constexpr int chunks(int size) const { return power_below(size); }
  constexpr int rounds(int size) const { return 2 * reduce_rounds(size); }
  constexpr int reduce_rounds(int size) const { return static_cast<int>(std::bit_width(static_cast<unsigned>(size - 1))); }
  constexpr int owner(int chunk, int size) const { return first_chunk(chunk, log2(chunks(size)), chunks(size)); }  // its own inverse

  template <class Post>
  constexpr void round(int k, int rank, int size, Post&& post) const {
    const bool spreading = k >= reduce_rounds(size);
    const int depth = spreading ? rounds(size) - 1 - k : k;
    const int all = chunks(size);
    const block own = block_of(rank, size);
    const int i = rank - own.first;
    const auto give = [&](int peer, int first, int count) {  // on the way up; on the way down the peer gives it back
      if (spreading) post(receive{peer, first, count, effect::copy});
      else post(send{peer, first, count});
    };
    const auto take = [&](int peer, int first, int count) {
      if (spreading) post(send{peer, first, count});
      else post(receive{peer, first, count, effect::add});
    };
    if (depth < log2(own.count)) {
      const int partner = i ^ (1 << depth);
      give(own.first + partner, first_chunk(partner, depth + 1, all), all >> (depth + 1));
      take(own.first + partner, first_chunk(i, depth + 1, all), all >> (depth + 1));
    } else if (depth == log2(own.count) && own.smaller > 0) {
      take(own.first + own.count + i % own.smaller, first_chunk(i, depth, all), all >> depth);
    } else if (own.larger > 0 && depth == log2(own.larger)) {
      for (int j = i; j < own.larger; j += own.count) give(own.first - own.larger + j, first_chunk(j, depth, all), all >> depth);
    }
  }

 private:
  struct block {
    int first, count, larger, smaller;  // ranks of the block, and how many its neighbours have (0: none)
  };

  static constexpr int power_below(int n) { return static_cast<int>(std::bit_floor(static_cast<unsigned>(n))); }  // or equal
  static constexpr int log2(int power) { return std::countr_zero(static_cast<unsigned>(power)); }

  static constexpr block block_of(int rank, int size) {
    block b{0, power_below(size), 0, 0};
    while (rank >= b.first + b.count) b = {b.first + b.count, power_below(size - b.first - b.count), b.count, 0};
    b.smaller = power_below(size - b.first - b.count);
    return b;
  }

  // Bit k of the rank says which half it keeps at depth k: the first chunk that is left after `depth` halvings.
  static constexpr int first_chunk(int rank, int depth, int chunks) {
    int first = 0;
    for (int k = 0; k < depth; ++k) first += ((rank >> k) & 1) * (chunks >> (k + 1));
    return first;
  }
};

static_assert(sharding<halving_doubling>);

}  // namespace gradsync
