// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// Two-dimensional torus: ranks in rows and columns with rings along both. One half of the buffer goes along the rows first, the other
/// half along the columns first, so that the links of both dimensions are busy at once (in a square, in every round).
///
/// Each half is a `hierarchical` of two rings: reduce and scatter in one dimension, sum each shard in the other, gather in the first. Rank
/// i stands in row i / columns.
///
/// p ranks in r rows and c columns, n bytes:
///   rounds           2 (r + c - 2)
///   sent per rank    2 n (p-1)/p bytes, two messages a round
///   cost             4 (r + c - 2) α + 2 n (p-1)/p β + n (p-1)/p γ over one link; half of α and β in a square whose
///                    dimensions have links of their own
///   scratch          none where peers' memory can be read, else n/(2 r) + n/(2 c) for r, c > 1
///   reproducibility  agreed: each half adds in another order (canonical for p ≤ 2, where all orders are alike)
///   owner            of each half, that of its hierarchical, after r + c - 2 rounds
///   papers           Ying, Kumar, Chen, Wang, Cheng: Image classification at supercomputer scale, 2018; Mikami et al.: Massively
///                    distributed SGD: ImageNet/ResNet-50 training in a flash, 2018
///
/// Refuses numbers of ranks that `columns` does not divide.
///
///     collective{comm, torus{.columns = 4}}
#pragma once

#include "gradsync/collective/hierarchical.hpp"
#include "gradsync/collective/ring.hpp"
#include "gradsync/collective/schedule.hpp"

namespace gradsync {

struct torus {
  int columns = 2;  ///< > 0

  constexpr const char* name() const { return "torus"; }
  constexpr const char* refuses(int size) const {
    if (columns < 1) return "a torus has at least one column";
    return size % columns == 0 ? nullptr : "torus does only numbers of ranks that its columns divide";
  }
  constexpr level claim(int size) const { return size <= 2 ? level::canonical : level::agreed; }
  constexpr int chunks(int size) const { return 2 * size; }
  constexpr int rounds(int size) const { return rows_first().rounds(size); }  // and those of the other half
  constexpr int reduce_rounds(int size) const { return rows_first().reduce_rounds(size); }
  constexpr int owner(int chunk, int size) const {
    return chunk < size ? rows_first().owner(chunk, size) : transposed(columns_first(size).owner(chunk - size, size), rows(size), columns);
  }

  template <class Post>
  constexpr void round(int k, int rank, int size, Post&& post) const {
    rows_first().round(k, rank, size, post);
    columns_first(size).round(k, transposed(rank, columns, rows(size)), size, [&](auto message) {
      post(detail::redirected(message, transposed(detail::peer_of(message), rows(size), columns), size + message.first, message.count));
    });
  }

 private:
  using half = hierarchical<ring, ring>;

  constexpr int rows(int size) const { return size / columns; }
  constexpr half rows_first() const { return {.inner = {}, .outer = {}, .group = columns}; }
  constexpr half columns_first(int size) const { return {.inner = {}, .outer = {}, .group = rows(size)}; }

  // Of `lines` lines of `width` ranks: the rank's number when all lines' first ranks are counted first, then the second ones.
  static constexpr int transposed(int rank, int width, int lines) { return rank % width * lines + rank / width; }
};

static_assert(sharding<torus>);

}  // namespace gradsync
