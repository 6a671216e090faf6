// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// One rank's part of a strategy as flat data, made once: what a transport walks, without knowing the strategy.
///
/// The contract with transports, for a strategy that `verify` accepts:
///   - operations of a round are in an order that is right to perform them in; sends are first, and only transports that pass messages
///     perform them. A copy, add or join reads the peer's chunks as they are after the peer's previous round.
///   - The k-th send of a round to a peer is the k-th operation of that peer's round that reads from here, with the same range.
///   - A join is one operation a peer, by ascending peer, one after the other with the same range; all carry the same flags and hazards.
///   - A write waits until each of its hazards' peers is through that round, since those peers read what it overwrites. Transports that
///     pass messages have this by order.
///   - `divides`: divide by Σw right after the write (after the last peer's of a join). With one rank there is no operation, and the
///     caller divides.
///   - A chunk may have a second place in scratch, memory of the transport's own: where a rank sends a chunk and writes it in one round,
///     the result goes to the other place, so that peers can read the first one meanwhile. Operations say which place they mean; most
///     programs know the buffer alone. A copy whose peer is the rank itself brings a chunk home in a last round; nobody sends it.
///
///     const program steps = compile(ring{}, rank, size);   // collective/compile.hpp
///     for (int k = 0; k < steps.rounds(); ++k)
///       for (const operation& op : steps.round(k)) { ... }
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "gradsync/core/buffer_view.hpp"  // where chunks are cut
#include "gradsync/core/series.hpp"

namespace gradsync {

/// `peer` must be through `round`, the last of its rounds in which it reads what is to be overwritten.
struct hazard {
  int peer, round;

  friend constexpr bool operator==(const hazard&, const hazard&) = default;
};

/// The two places that a chunk can have on a rank.
enum class region : std::uint8_t { buffer, scratch };

/// One message: chunks first .. first + count - 1, to or from `peer`.
struct operation {
  enum class kind : std::uint8_t { send, copy, add, join } what;
  bool divides;
  int peer, first, count;
  int hazard_begin, hazard_end;  ///< in program::hazards
  region from = region::buffer;  ///< where the chunks lie on the rank that sends them
  region own = region::buffer;   ///< where those lie that they are added to or joined with
  region to = region::buffer;    ///< where the result goes

  friend constexpr bool operator==(const operation&, const operation&) = default;
};

constexpr const char* name_of(operation::kind what) {
  constexpr const char* names[] = {"send", "copy", "add", "join"};
  return names[static_cast<int>(what)];
}

/// How many of the operations that are left of a round are performed at once: all of a join, which is one operation a peer; else one.
constexpr std::size_t performed_at_once(series_view<operation> left) {
  const auto joined = [&](const operation& op) { return op.what == operation::kind::join && op.first == left[0].first; };
  std::size_t n = 1;
  while (joined(left[0]) && n < left.size() && joined(left[n])) ++n;
  return n;
}

struct program {
  std::string name;  ///< of the strategy
  int rank = 0, size = 1, chunks = 1;
  bool fused = false;             ///< the transport may run the whole as a pass of its own
  series<operation> operations;   ///< by round
  series<int> round_begin = {0};  ///< first operation of each round, and the end
  series<hazard> hazards;
  series<hazard> readers;                    ///< per peer that reads this rank's memory, ascending: the last round in which it does
  int scratch_first = 0, scratch_count = 0;  ///< no other chunks of this rank have a place in scratch

  int rounds() const { return static_cast<int>(round_begin.size()) - 1; }
  series_view<operation> round(int k) const {
    const std::size_t begin = static_cast<std::size_t>(round_begin[static_cast<std::size_t>(k)]);
    return {operations.data() + begin, static_cast<std::size_t>(round_begin[static_cast<std::size_t>(k) + 1]) - begin};
  }

  /// What scratch stands in for when the buffer is this one: its elements begin .. end - 1.
  struct elements {
    std::size_t begin, end;
  };
  elements scratch_of(const buffer_view& buffer) const {
    return {cut(buffer, chunks, scratch_first), cut(buffer, chunks, scratch_first + scratch_count)};
  }

  /// Memory that this rank needs beside the buffer, unless the transport fuses the program.
  std::size_t scratch_bytes(const buffer_view& buffer) const {
    const elements all = scratch_of(buffer);
    return (all.end - all.begin) * size_of(buffer.type);
  }
};

}  // namespace gradsync
