// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// Binomial tree: sums climb to rank 0, the result comes down the same way. The buffer goes in segments that follow each other one level
/// apart, so that all levels work at once.
///
/// p ranks, n bytes, S segments, d = ceil(log2 p) levels:
///   rounds           2 d + S - 1
///   sent per rank    rank 0: d n bytes; every other rank n, and n for each of its children
///   cost             d (S + d) (α + n/S β) + d n γ for S ≥ 2 d;  2 d (α + n β) + d n γ for S = 1 (rank 0 is the busiest)
///   scratch          none where peers' memory can be read, else min(d, S) n/S (rank 0)
///   reproducibility  canonical for every p
///   owner            none: there is no reduce-scatter half
///   paper            Thakur, Rabenseifner, Gropp: Optimization of collective communication operations in MPICH, 2005
///
///     collective{comm, tree{.segments = 16}}
#pragma once

#include <bit>  // the depth

#include "gradsync/collective/schedule.hpp"

namespace gradsync {

struct tree {
  int segments = 4;  ///< > 0

  /// Levels between rank 0 and the lowest leaf.
  static constexpr int depth(int size) { return static_cast<int>(std::bit_width(static_cast<unsigned>(size - 1))); }

  constexpr const char* name() const { return "tree"; }
  constexpr level claim(int) const { return level::canonical; }
  constexpr int chunks(int) const { return segments; }
  constexpr int rounds(int size) const { return size > 1 ? 2 * depth(size) + segments - 1 : 0; }

  template <class Post>
  constexpr void round(int k, int rank, int size, Post&& post) const {
    const int levels = depth(size);
    const int last = k < segments - 1 ? k : segments - 1;
    for (int s = k < 2 * levels ? 0 : k - 2 * levels + 1; s <= last; ++s) {
      const bool climbing = k - s < levels;
      const int distance = 1 << (climbing ? k - s : 2 * levels - 1 - (k - s));  // between a child and its parent on this level
      if (rank % (2 * distance) == distance) {
        if (climbing) post(send{rank - distance, s, 1});
        else post(receive{rank - distance, s, 1, effect::copy});
      } else if (rank % (2 * distance) == 0 && rank + distance < size) {
        if (climbing) post(receive{rank + distance, s, 1, effect::add});
        else post(send{rank + distance, s, 1});
      }
    }
  }
};

static_assert(strategy<tree> && !sharding<tree>);

}  // namespace gradsync
