// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// Double binary tree: two binary trees over the same ranks carry half of the buffer each. Who has children in one tree is a leaf in the
/// other, so all ranks work: the few levels of a tree with nearly the bytes of a ring.
///
/// Each tree is a heap: place 0 is the root, the children of place i are 2i+1 and 2i+2, and the upper half of the places has all the
/// children. The ranks stand in order in the first tree; in the second the two halves are swapped. The swap keeps ranks of different parity
/// side by side, so a rank's parity can say when it talks to its parent: even ranks in every other round in the first tree, odd ranks in
/// the same rounds in the second. The two children of a parent take turns that way, and so do the two parents of a rank: in each round a
/// rank sends at most one message and receives at most one. First all segments climb, two rounds a level, one behind the other; then they
/// come down the same way.
///
/// p ranks, n bytes, S segments in each tree, d = floor(log2 p) levels, u = 2 turns (1 for p = 2):
///   rounds           2 u (d + S - 1)
///   sent per rank    n/2 for each parent and each child: 2 n at most, roots 3/2 n (n for p = 2)
///   cost             2 u (d + S - 1) (α + n/(2 S) β) + u (d + S - 1) n/(2 S) γ: for large S 2 n β + n γ; least where S is about
///                    sqrt((d - 1) n β / (2 α))
///   scratch          none where peers' memory can be read, else n/(2 S)
///   reproducibility  agreed: each tree adds in another order (canonical for p ≤ 2, where all orders are alike)
///   owner            none: there is no reduce-scatter half
///   paper            Sanders, Speck, Träff: Two-tree algorithms for full bandwidth broadcast, reduction and scan, 2009 (there the trees
///                    are numbered in order, and the turns found by recursion)
///
///     collective{comm, double_tree{.segments = 16}}
#pragma once

#include <bit>  // the depth

#include "gradsync/collective/schedule.hpp"

namespace gradsync {

struct double_tree {
  int segments = 8;  ///< of each tree's half; > 0

  constexpr const char* name() const { return "double_tree"; }
  constexpr level claim(int size) const { return size <= 2 ? level::canonical : level::agreed; }
  constexpr int chunks(int) const { return 2 * segments; }
  constexpr int rounds(int size) const { return size > 1 ? 2 * climbing_rounds(size) : 0; }

  template <class Post>
  constexpr void round(int k, int rank, int size, Post&& post) const {
    const bool climbing = k < climbing_rounds(size);
    const int step = k % climbing_rounds(size);
    for (int tree = 0; tree < 2; ++tree) {
      const int place = swapped(rank, size, tree);
      if (const int chunk = chunk_of(place, step, size, {tree, climbing}); chunk >= 0) {
        const int parent = swapped((place - 1) / 2, size, tree);
        if (climbing) post(send{parent, chunk, 1});
        else post(receive{parent, chunk, 1, effect::copy});
      }
      for (int i = 2 * place + 1; i <= 2 * place + 2 && i < size; ++i) {
        const int chunk = chunk_of(i, step, size, {tree, climbing});
        if (chunk < 0) continue;
        const int child = swapped(i, size, tree);
        if (climbing) post(receive{child, chunk, 1, effect::add});
        else post(send{child, chunk, 1});
      }
    }
  }

 private:
  struct way {
    int tree;
    bool climbing;
  };

  static constexpr int level_of(int place) { return static_cast<int>(std::bit_width(static_cast<unsigned>(place + 1))) - 1; }
  static constexpr int turns(int size) { return size > 2 ? 2 : 1; }
  constexpr int climbing_rounds(int size) const { return turns(size) * (level_of(size - 1) + segments - 1); }

  // The place of a rank in a tree, and the rank at a place.
  static constexpr int swapped(int rank, int size, int tree) {
    const int half = size / 2, upper = size - half;
    if (tree == 0 || (rank >= half && rank < upper)) return rank;  // of an odd number of ranks the middle one is a leaf in both trees
    int i = rank < half ? rank : rank - upper;
    if (size % 4 == 1) i ^= 1;  // here the middle one would have the wrong parity otherwise
    return rank < half ? i + upper : i;
  }

  // What goes between a place and its parent in a round of one direction; -1: nothing.
  constexpr int chunk_of(int place, int step, int size, way w) const {
    const int turn = (swapped(place, size, w.tree) + w.tree) % 2;
    if (place == 0 || step % turns(size) != turn % turns(size)) return -1;
    const int lead = w.climbing ? level_of(size - 1) - level_of(place) : level_of(place) - 1;
    const int segment = step / turns(size) - lead;
    return segment >= 0 && segment < segments ? w.tree * segments + segment : -1;
  }
};

static_assert(strategy<double_tree> && !sharding<double_tree>);

}  // namespace gradsync
