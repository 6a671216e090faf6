// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// Where the elements of an operation lie, by what ranks have posted; the same for all ways to reach peers' memory, of threads
/// (comm/peers.hpp), processes (comm/process_peers.hpp) and devices.
///
///     expect_scratch(peers, p, op, t);
///     const buffer_view from = view_of(peers, op.peer, op.from, t);
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>
#include <string>

#include "gradsync/comm/call.hpp"
#include "gradsync/comm/program.hpp"
#include "gradsync/comm/transport.hpp"
#include "gradsync/core/buffer_view.hpp"

namespace gradsync::detail {

/// Where `rank`'s elements lie. To be used up in the pass in which it was asked for.
template <class Peers>
buffer_view view_of(const Peers& peers, int rank, region where, const ticket& t) {
  const auto& posted = peers.posted_by(rank, t);
  return where == region::buffer ? posted.lent.buffer : buffer_view{posted.lent.buffer.type, std::span(&posted.scratch, 1)};
}

/// Elements first .. last - 1 of a buffer, from where one view has them to where another has.
inline void copy_elements(const buffer_view& to, const buffer_view& from, std::size_t first, std::size_t last) {
  const std::size_t element = size_of(to.type);
  for (std::size_t n = 0; first < last; first += n) {
    const extent &target = to.extents[extent_of(to, first)], &source = from.extents[extent_of(from, first)];
    n = std::min(last, std::min(target.first + target.count, source.first + source.count)) - first;
    std::memcpy(target.data + (first - target.first) * element, source.data + (first - source.first) * element, n * element);
  }
}

/// `mismatch_error` for a peer that runs another strategy, and has no scratch where this rank would read.
template <class Peers>
void expect_scratch(const Peers& peers, const program& p, const operation& op, const ticket& t) {
  const extent& theirs = peers.posted_by(op.peer, t).scratch;
  const buffer_view& ours = peers.posted_by(peers.rank(), t).lent.buffer;
  const std::size_t begin = cut(ours, p.chunks, op.first), end = cut(ours, p.chunks, op.first + op.count);
  if (begin == end || (theirs.first <= begin && end <= theirs.first + theirs.count)) return;
  throw_other_strategy("rank " + std::to_string(op.peer), p.name, {.rank = peers.rank(), .step = -1, .bucket = -1, .parameter = {}});
}

}  // namespace gradsync::detail
