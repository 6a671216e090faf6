// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// In which of its two places each rank's chunks lie, round by round. Most strategies need one place only.
///
/// Peers read each other's memory where it lies, so a chunk that a rank sends must not be written in the same round. Where a strategy does
/// both (recursive doubling: each of two ranks adds what the other has), the result goes to the chunk's other place, from the buffer to
/// scratch or from scratch to the buffer, and what was sent stays where it was for whoever reads it. That takes no copy and no further
/// round. Only chunks that end in scratch are copied home, in one round after the strategy's last.
///
/// Cost: every message of every rank is looked at once. Nothing is stored of a strategy that is in place.
///
///     const placement places(recursive_doubling{}, 4);
///     places.before(1, 0, 0) == region::scratch       // rank 0's chunk 0, which it sent and added to in round 0
///     const program p = compile(recursive_doubling{}, 0, places);      // collective/compile.hpp
#pragma once

#include <algorithm>  // sorting and searching
#include <compare>
#include <cstdint>

#include "gradsync/collective/any_strategy.hpp"
#include "gradsync/collective/schedule.hpp"
#include "gradsync/comm/program.hpp"  // region
#include "gradsync/core/series.hpp"

namespace gradsync {

class placement {
 public:
  /// Of a strategy whose messages are in bounds: `verify` looks at that first.
  constexpr explicit placement(const any_strategy& s) : size_(s.size), rounds_(s.rounds) {
    struct last_use {  // the number of the last part, one rank's in one round, that did so with a chunk
      std::int64_t sent = -1, written = -1, found = -1;
    };
    series<last_use> last(detail::index(s.chunks));
    series<message> posted;
    for (int rank = 0; rank < size_; ++rank)
      for (int k = 0; k < rounds_; ++k) {
        const std::int64_t part = std::int64_t{rank} * rounds_ + k;
        posted.clear();
        s.post(k, rank, posted);
        for (const message& m : posted)
          for (int c = m.first; c < m.first + m.count; ++c) {
            last_use& chunk = last[detail::index(c)];
            (m.sends ? chunk.sent : chunk.written) = part;
            if (chunk.sent != chunk.written || chunk.found == part) continue;
            chunk.found = part;
            flips_.push_back({rank, c, k});
          }
      }
    std::sort(flips_.begin(), flips_.end());
    for (const flip& f : flips_) settles_ = settles_ || before(rounds_, f.rank, f.chunk) == region::scratch;
  }

  template <strategy S>
  constexpr placement(const S& s, int size) : placement(erased_strategy<S>(s, size)) {}

  constexpr int size() const { return size_; }

  /// No rank sends a chunk and writes it in the same round: all chunks lie in the buffer all the time.
  constexpr bool in_place() const { return flips_.empty(); }

  /// Where a chunk of `rank` lies when `round` begins; of the strategy's number of rounds: where it lies in the end.
  constexpr region before(int round, int rank, int chunk) const {
    if (flips_.empty()) return region::buffer;
    const auto first = std::lower_bound(flips_.begin(), flips_.end(), flip{rank, chunk, 0});
    return (std::lower_bound(first, flips_.end(), flip{rank, chunk, round}) - first) % 2 == 0 ? region::buffer : region::scratch;
  }
  constexpr region after(int round, int rank, int chunk) const { return before(round + 1, rank, chunk); }

  /// Some rank ends with a chunk in scratch: programs have one round more than the strategy.
  constexpr bool settles() const { return settles_; }

  /// The chunks of `rank` that ever lie in scratch, and whatever is between them.
  struct range {
    int first = 0, count = 0;
  };
  constexpr range scratch_of(int rank) const {
    const auto begin = std::lower_bound(flips_.begin(), flips_.end(), flip{rank, 0, 0});
    const auto end = std::lower_bound(begin, flips_.end(), flip{rank + 1, 0, 0});
    if (begin == end) return {};
    return {begin->chunk, (end - 1)->chunk - begin->chunk + 1};
  }

 private:
  struct flip {  // `rank` writes `chunk` to its other place in this round
    int rank = 0, chunk = 0, round = 0;

    friend constexpr auto operator<=>(const flip&, const flip&) = default;
  };

  int size_, rounds_;
  bool settles_ = false;
  series<flip> flips_;  // sorted
};

}  // namespace gradsync
