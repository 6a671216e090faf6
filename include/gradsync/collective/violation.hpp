// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// What can be wrong with a strategy, as data and in words. `verify` finds it; whoever wrote the strategy reads it.
///
///     if (const proof p = verify(mine, size); !p.holds()) throw usage_error{describe(p.first)};
///     // in round 3 rank 2 waits for chunks from 1 on from rank 0, which does not send them in that round
#pragma once

#include <cstdint>
#include <string>       // the words
#include <string_view>  // which compare by their letters, in constant expressions too

namespace gradsync {

/// Limits that a sane strategy never meets; they catch options gone wrong before they eat the memory.
constexpr int most_chunks = 1 << 16, most_rounds = 1 << 16;

/// What is wrong with a strategy, and where; numbers that do not apply are -1. Rounds count from 0.
struct violation {
  enum class kind : std::uint8_t {
    none,
    bad_size,              ///< verify was asked for fewer than one rank
    refused_size,          ///< the strategy itself does not do this number of ranks; `reason` is what it said
    bad_chunks,            ///< chunks() outside 1 .. most_chunks; `chunk` is what it said
    bad_rounds,            ///< rounds() outside 0 .. most_rounds; `round` is what it said
    unknown_peer,          ///< a message to or from a rank outside the group
    self_message,          ///< a message to or from oneself
    out_of_range,          ///< a range of chunks that is empty or leaves the buffer; `chunk` is its first
    unmatched_send,        ///< nobody receives it in this round
    unmatched_receive,     ///< nobody sends it in this round: it would wait for ever
    crossed,               ///< the send it meets has another range
    overlapping_writes,    ///< several receives of a round into one chunk that are neither all adds nor all joins
    partial_join,          ///< not every other rank, or not in ascending order
    divided_early,         ///< a rank's last add or join into a chunk does not complete the sum, and no copy follows
    added_after_division,  ///< a value that was already divided is added to
    incomplete,            ///< a rank does not end with each contribution exactly once
    undivided,             ///< a rank ends with a sum that nobody divided
    disagreement,          ///< a rank ends with another order of additions than rank 0
    weaker_than_claimed,   ///< the proved level is below claim(size)
  } what = kind::none;
  int round = -1, rank = -1, peer = -1, chunk = -1;
  std::string_view reason = {};  ///< of the strategy's own; it lasts as long as the program

  friend constexpr bool operator==(const violation&, const violation&) = default;
};

/// The violation in words, for whoever wrote the strategy; empty if there is none.
inline std::string describe(const violation& v) {
  using kind = violation::kind;
  const auto number = [](int i) { return std::to_string(i); };
  const std::string who = "in round " + number(v.round) + " rank " + number(v.rank), peer = "rank " + number(v.peer);
  const std::string chunk = "chunk " + number(v.chunk), range = "chunks from " + number(v.chunk) + " on";
  const std::string end = "after the last round rank " + number(v.rank);
  switch (v.what) {
    case kind::none: return {};
    case kind::bad_size: return "a group has at least one rank";
    case kind::refused_size: return std::string(v.reason);
    case kind::bad_chunks: return "chunks() says " + number(v.chunk) + "; it must be 1 to " + number(most_chunks);
    case kind::bad_rounds: return "rounds() says " + number(v.round) + "; it must be 0 to " + number(most_rounds);
    case kind::unknown_peer: return who + " names " + peer + ", which is not in the group";
    case kind::self_message: return who + " sends to itself or receives from itself";
    case kind::out_of_range: return who + " posts " + range + " with " + peer + " that are none, or not in the buffer";
    case kind::unmatched_send: return who + " sends " + range + " to " + peer + ", which does not receive them in that round";
    case kind::unmatched_receive: return who + " waits for " + range + " from " + peer + ", which does not send them in that round";
    case kind::crossed: return who + " receives " + range + " where " + peer + " sends others; the messages of a pair match in order";
    case kind::overlapping_writes:
      return who + " receives " + chunk + " from " + peer + " on top of another receive; only adds, or only joins, may meet in a chunk";
    case kind::partial_join:
      return who + " joins " + chunk + " without receiving it from every other rank in ascending order (last: " + peer + ")";
    case kind::divided_early:
      return who + " adds to " + chunk +
             ", which it never receives again, but does not hold each contribution exactly once then; is an add " +
             "missing before, or a copy later?";
    case kind::added_after_division: return who + " adds " + chunk + " of " + peer + " after one of the two was divided";
    case kind::incomplete: return end + " does not hold each contribution to " + chunk + " exactly once";
    case kind::undivided: return end + " holds " + chunk + ", which was not divided exactly once";
    case kind::disagreement: return end + " holds " + chunk + " added in another order than on rank 0";
    case kind::weaker_than_claimed: return "its sums are less reproducible than claim() says";
  }
  return {};
}

}  // namespace gradsync
