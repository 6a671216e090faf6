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

#include <cstddef>
#include <utility>

#include "gradsync/collective/any_strategy.hpp"
#include "gradsync/collective/placement.hpp"
#include "gradsync/collective/schedule.hpp"
#include "gradsync/comm/program.hpp"
#include "gradsync/core/series.hpp"

namespace gradsync {

namespace detail {

class compiler {
 public:
  compiler(const any_strategy& s, int rank, const placement& places)
      : strategy_(s), places_(places), rank_(rank), size_(s.size), chunks_(s.chunks), divisions_(index(size_)),
        readers_of_(2 * index(chunks_)) {}

  program run() {
    const placement::range scratch = places_.scratch_of(rank_);
    program_ = {strategy_.name, rank_, size_, chunks_, strategy_.fused, {}, {0}, {}, {}, scratch.first, scratch.count};
    series<int> last_read(index(size_), -1);
    for (int k = 0; k < strategy_.rounds; ++k) {
      const series<operation> sent = sends(k);
      for (const operation& op : sent) program_.operations.push_back(op);
      write(receives(k, rank_));
      for (const operation& op : sent) {
        for (int c = op.first; c < op.first + op.count; ++c) readers_of(op.from, c).push_back({op.peer, k});
        last_read[index(op.peer)] = k;
      }
    }
    if (places_.settles()) write(settling());
    for (int peer = 0; peer < size_; ++peer)
      if (last_read[index(peer)] >= 0) program_.readers.push_back({peer, last_read[index(peer)]});
    return std::move(program_);
  }

 private:
  using kind = operation::kind;

  series<hazard>& readers_of(region where, int chunk) { return readers_of_[2 * index(chunk) + (where == region::scratch ? 1 : 0)]; }

  // The writes of a round, which end it.
  void write(const series<operation>& all) {
    for (operation op : all) {
      add_hazards(op);
      program_.operations.push_back(op);
    }
    for (const operation& op : all)
      for (int c = op.first; c < op.first + op.count; ++c) readers_of(op.to, c).clear();
    program_.round_begin.push_back(static_cast<int>(program_.operations.size()));
  }

  // Brings home what ends in scratch.
  series<operation> settling() const {
    series<operation> all;
    for (int c = 0; c < chunks_; ++c)
      if (places_.before(strategy_.rounds, rank_, c) == region::scratch)
        append(all, {kind::copy, false, rank_, c, 1, 0, 0, region::scratch});
    return all;
  }

  const series<division>& divisions(int rank) {
    series<division>& known = divisions_[index(rank)];
    if (known.empty()) {
      known.resize(index(chunks_));
      find_divisions(strategy_, rank, known.data());
    }
    return known;
  }

  // What `rank` receives in round k, coalesced: adjacent ranges of one peer become one message, if that leaves the order of additions.
  series<operation> receives(int k, int rank) {
    const series<division>& divided = divisions(rank);
    series<operation> all;
    series<bool> joined;  // by chunk, if any is
    series<message> posted;
    strategy_.post(k, rank, posted);
    int i = 0;
    for (const message& m : posted) {
      if (m.sends) continue;
      for (int c = m.first; c < m.first + m.count; ++c) {
        const division& d = divided[index(c)];
        if (m.what == effect::join) joined.resize(index(chunks_)), joined[index(c)] = true;
        else if (m.what == effect::copy) append(all, placed(k, rank, {kind::copy, false, m.peer, c, 1, 0, 0}));
        else append(all, placed(k, rank, {kind::add, d.round == k && d.receive == i, m.peer, c, 1, 0, 0}));
      }
      ++i;
    }
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
  static void append(series<operation>& all, operation chunk) {
    if (chunk.own != chunk.to)  // the second of several additions finds the sum of the first where that went
      for (const operation& op : all) chunk.own = covers(op, chunk.first) ? chunk.to : chunk.own;
    for (std::size_t i = all.size(); i-- > 0;) {
      operation& op = all[i];
      if (op.peer == chunk.peer) {
        if (!alike(op, chunk) || op.first + op.count != chunk.first) break;
        ++op.count;
        return;
      }
      if (covers(op, chunk.first)) break;  // an addition that was posted before this one
    }
    all.push_back(chunk);
  }

  // Every other rank sends each of the chunks; their messages grow together.
  void append_joins(series<operation>& all, const series<bool>& joined, int k, int rank) {
    const std::size_t others = index(size_) - 1;
    series<operation> next;
    for (std::size_t c = 0; c < joined.size(); ++c) {
      if (!joined[c]) continue;
      const int chunk = static_cast<int>(c);
      next.clear();
      for (int peer = 0; peer < size_; ++peer)
        if (peer != rank) next.push_back(placed(k, rank, {kind::join, divisions(rank)[c].round == k, peer, chunk, 1, 0, 0}));
      bool grows = c > 0 && joined[c - 1];
      for (std::size_t i = 0; grows && i < others; ++i) grows = alike(next[i], all[all.size() - others + i]);
      for (std::size_t i = 0; i < others; ++i) {
        if (grows) ++all[all.size() - others + i].count;
        else all.push_back(next[i]);
      }
    }
  }

  // What goes out in round k, cut into messages as the receivers cut it.
  series<operation> sends(int k) {
    series<message> posted;
    strategy_.post(k, rank_, posted);
    series<int> messages(index(size_));
    for (const message& m : posted) messages[index(m.peer)] += m.sends ? 1 : 0;
    series<operation> all;
    for (const message& m : posted) {
      if (!m.sends) continue;
      int& left = messages[index(m.peer)];
      if (left == 1 && m.count == 1) {  // nothing to cut or to coalesce, so the receiver need not be asked
        all.push_back({kind::send, false, m.peer, m.first, 1, 0, 0, places_.before(k, rank_, m.first)});
      } else if (left > 0) {
        for (const operation& op : receives(k, m.peer))
          if (op.peer == rank_) all.push_back({kind::send, false, m.peer, op.first, op.count, 0, 0, op.from});
        left = 0;  // all of them are done with the first
      }
    }
    return all;
  }

  void add_hazards(operation& op) {
    const std::size_t begin = program_.hazards.size();
    for (int c = op.first; c < op.first + op.count; ++c)
      for (const hazard& h : readers_of(op.to, c)) add_hazard(h, begin);
    op.hazard_begin = static_cast<int>(begin);
    op.hazard_end = static_cast<int>(program_.hazards.size());
  }

  // One for each peer, by ascending peer: its last read counts. An operation's own are those from `begin` on.
  void add_hazard(const hazard& read, std::size_t begin) {
    series<hazard>& all = program_.hazards;
    std::size_t i = all.size();
    while (i > begin && all[i - 1].peer > read.peer) --i;
    if (i > begin && all[i - 1].peer == read.peer) {
      if (all[i - 1].round < read.round) all[i - 1].round = read.round;
      return;
    }
    all.push_back(read);
    for (std::size_t later = all.size() - 1; later > i; --later) all[later] = all[later - 1];
    all[i] = read;
  }

  const any_strategy& strategy_;
  const placement& places_;
  int rank_, size_, chunks_;
  series<series<division>> divisions_;  // per rank, once asked for
  series<series<hazard>> readers_of_;   // per chunk and region: who was sent it, and when, since it was last written
  program program_;
};

}  // namespace detail

/// The part of `rank` in a strategy that `verify` accepts; any other gives a program that no transport should run.
inline program compile(const any_strategy& s, int rank, const placement& places) { return detail::compiler(s, rank, places).run(); }

/// The same of `s`, for the number of ranks that `places` was made for, or for `size` ranks.
template <strategy S>
program compile(const S& s, int rank, const placement& places) {
  return compile(erased_strategy<S>(s, places.size()), rank, places);
}
template <strategy S>
program compile(const S& s, int rank, int size) {
  return compile(s, rank, placement(s, size));
}

}  // namespace gradsync
