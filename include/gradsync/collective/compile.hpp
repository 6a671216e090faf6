// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// Turns a strategy into one rank's program (comm/program.hpp): flat, coalesced, with the division in its place, each chunk in the right
/// one of its places, and the hazards of each write.
///
///     const program steps = compile(ring{}, rank, size);
///
/// Compiles what `verify` accepts; of another strategy the program is as wrong as the strategy. Whoever compiles for many ranks makes the
/// placement once: it looks at all ranks, while the rest takes what one rank and its peers post.
#pragma once

#include <algorithm>  // sorting hazards and joins
#include <type_traits>
#include <utility>
#include <vector>

#include "gradsync/collective/placement.hpp"
#include "gradsync/collective/schedule.hpp"
#include "gradsync/comm/program.hpp"

namespace gradsync {

namespace detail {

template <strategy S>
class compiler {
 public:
  compiler(const S& s, int rank, const placement& places)
      : strategy_(s), places_(places), rank_(rank), size_(places.size()), chunks_(s.chunks(size_)), divisions_(index(size_)),
        readers_of_(2 * index(chunks_)) {}

  program run() {
    const placement::range scratch = places_.scratch_of(rank_);
    program_ = {strategy_.name(), rank_, size_, chunks_, is_fused<S>(), {}, {0}, {}, {}, scratch.first, scratch.count};
    std::vector<int> last_read(index(size_), -1);
    const int rounds = strategy_.rounds(size_);
    for (int k = 0; k < rounds; ++k) {
      const std::vector<operation> sent = sends(k);
      program_.operations.insert(program_.operations.end(), sent.begin(), sent.end());
      write(receives(k, rank_));
      for (const operation& op : sent) {
        for (int c = op.first; c < op.first + op.count; ++c) readers_of(op.from, c).push_back({op.peer, k});
        last_read[index(op.peer)] = k;
      }
    }
    if (places_.settles()) write(settling(rounds));
    for (int peer = 0; peer < size_; ++peer)
      if (last_read[index(peer)] >= 0) program_.readers.push_back({peer, last_read[index(peer)]});
    return std::move(program_);
  }

 private:
  using kind = operation::kind;

  std::vector<hazard>& readers_of(region where, int chunk) { return readers_of_[2 * index(chunk) + (where == region::scratch ? 1 : 0)]; }

  // The writes of a round, which end it.
  void write(const std::vector<operation>& all) {
    for (operation op : all) {
      add_hazards(op);
      program_.operations.push_back(op);
    }
    for (const operation& op : all)
      for (int c = op.first; c < op.first + op.count; ++c) readers_of(op.to, c).clear();
    program_.round_begin.push_back(static_cast<int>(program_.operations.size()));
  }

  // Brings home what ends in scratch.
  std::vector<operation> settling(int rounds) const {
    std::vector<operation> all;
    for (int c = 0; c < chunks_; ++c)
      if (places_.before(rounds, rank_, c) == region::scratch) append(all, {kind::copy, false, rank_, c, 1, 0, 0, region::scratch});
    return all;
  }

  const std::vector<division>& divisions(int rank) {
    std::vector<division>& known = divisions_[index(rank)];
    if (known.empty()) {
      known.resize(index(chunks_));
      find_divisions(strategy_, rank, size_, known.data());
    }
    return known;
  }

  // What `rank` receives in round k, coalesced: adjacent ranges of one peer become one message, if that leaves the order of additions.
  std::vector<operation> receives(int k, int rank) {
    const std::vector<division>& divided = divisions(rank);
    std::vector<operation> all;
    std::vector<int> joined;  // chunks
    int i = 0;
    strategy_.round(k, rank, size_, [&](auto message) {
      if constexpr (std::is_same_v<decltype(message), receive>) {
        for (int c = message.first; c < message.first + message.count; ++c) {
          const division& d = divided[index(c)];
          if (message.what == effect::join) joined.push_back(c);
          else if (message.what == effect::copy) append(all, placed(k, rank, {kind::copy, false, message.from, c, 1, 0, 0}));
          else append(all, placed(k, rank, {kind::add, d.round == k && d.receive == i, message.from, c, 1, 0, 0}));
        }
        ++i;
      }
    });
    append_joins(all, joined, k, rank);
    return all;
  }

  // A message of one chunk to `rank` in round k, with the chunk's places.
  operation placed(int k, int rank, operation chunk) const {
    chunk.from = places_.before(k, chunk.peer, chunk.first);
    chunk.to = places_.after(k, rank, chunk.first);
    if (chunk.what != kind::copy) chunk.own = places_.before(k, rank, chunk.first);
    return chunk;
  }

  static bool covers(const operation& op, int chunk) { return op.first <= chunk && chunk < op.first + op.count; }
  static bool alike(const operation& a, const operation& b) {
    return a.what == b.what && a.divides == b.divides && a.peer == b.peer && a.from == b.from && a.own == b.own && a.to == b.to;
  }

  // Adds a chunk to the peer's last message if that may grow by it, else as a message of its own.
  static void append(std::vector<operation>& all, operation chunk) {
    if (chunk.own != chunk.to)  // the second of several additions finds the sum of the first where that went
      for (const operation& op : all) chunk.own = covers(op, chunk.first) ? chunk.to : chunk.own;
    for (auto op = all.rbegin(); op != all.rend(); ++op) {
      if (op->peer == chunk.peer) {
        if (!alike(*op, chunk) || op->first + op->count != chunk.first) break;
        ++op->count;
        return;
      }
      if (covers(*op, chunk.first)) break;  // an addition that was posted before this one
    }
    all.push_back(chunk);
  }

  // Every other rank sends each of the chunks; their messages grow together.
  void append_joins(std::vector<operation>& all, std::vector<int>& chunks, int k, int rank) {
    std::sort(chunks.begin(), chunks.end());
    chunks.erase(std::unique(chunks.begin(), chunks.end()), chunks.end());
    const auto others = static_cast<std::ptrdiff_t>(size_) - 1;
    std::vector<operation> next;
    for (bool first = true; const int c : chunks) {
      next.clear();
      for (int peer = 0; peer < size_; ++peer)
        if (peer != rank) next.push_back(placed(k, rank, {kind::join, divisions(rank)[index(c)].round == k, peer, c, 1, 0, 0}));
      const bool grows =
          !first && all.back().first + all.back().count == c && std::equal(next.begin(), next.end(), all.end() - others, alike);
      if (!grows) all.insert(all.end(), next.begin(), next.end());
      else
        for (auto op = all.end() - others; op != all.end(); ++op) ++op->count;
      first = false;
    }
  }

  // What goes out in round k, cut into messages as the receivers cut it.
  std::vector<operation> sends(int k) {
    std::vector<send> posted;
    std::vector<int> messages(index(size_), 0);
    strategy_.round(k, rank_, size_, [&](auto message) {
      if constexpr (std::is_same_v<decltype(message), send>) {
        posted.push_back(message);
        ++messages[index(message.to)];
      }
    });
    std::vector<operation> all;
    for (const send& s : posted) {
      int& left = messages[index(s.to)];
      if (left == 1 && s.count == 1) {  // nothing to cut or to coalesce, so the receiver need not be asked
        all.push_back({kind::send, false, s.to, s.first, 1, 0, 0, places_.before(k, rank_, s.first)});
      } else if (left > 0) {
        for (const operation& op : receives(k, s.to))
          if (op.peer == rank_) all.push_back({kind::send, false, s.to, op.first, op.count, 0, 0, op.from});
        left = 0;  // all of them are done with the first
      }
    }
    return all;
  }

  void add_hazards(operation& op) {
    op.hazard_begin = static_cast<int>(program_.hazards.size());
    std::vector<hazard> reads;
    for (int c = op.first; c < op.first + op.count; ++c)
      for (const hazard& h : readers_of(op.to, c)) reads.push_back(h);
    const auto later_first = [](const hazard& a, const hazard& b) { return a.peer != b.peer ? a.peer < b.peer : a.round > b.round; };
    std::sort(reads.begin(), reads.end(), later_first);
    for (std::size_t i = 0; i < reads.size(); ++i)
      if (i == 0 || reads[i].peer != reads[i - 1].peer) program_.hazards.push_back(reads[i]);
    op.hazard_end = static_cast<int>(program_.hazards.size());
  }

  const S& strategy_;
  const placement& places_;
  int rank_, size_, chunks_;
  std::vector<std::vector<division>> divisions_;  // per rank, once asked for
  std::vector<std::vector<hazard>> readers_of_;   // per chunk and region: who was sent it, and when, since it was last written
  program program_;
};

}  // namespace detail

/// The part of `rank` in a strategy that `verify` accepts for `size`; any other gives a program that no transport should run.
template <strategy S>
program compile(const S& s, int rank, const placement& places) {
  return detail::compiler<S>{s, rank, places}.run();
}
template <strategy S>
program compile(const S& s, int rank, int size) {
  return compile(s, rank, placement(s, size));
}

}  // namespace gradsync
