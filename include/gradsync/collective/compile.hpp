// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// Turns a strategy into one rank's program (comm/program.hpp): flat, coalesced, with the division in its place and the hazards of each
/// write.
///
///     const program steps = compile(ring{}, rank, size);
///
/// Compiles what `verify` accepts; of another strategy the program is as wrong as the strategy.
#pragma once

#include <algorithm>  // sorting hazards and joins
#include <type_traits>
#include <utility>
#include <vector>

#include "gradsync/collective/schedule.hpp"
#include "gradsync/comm/program.hpp"

namespace gradsync {

namespace detail {

template <strategy S>
class compiler {
 public:
  compiler(const S& s, int rank, int size)
      : strategy_(s), rank_(rank), size_(size), chunks_(s.chunks(size)), divisions_(index(size)), readers_of_(index(chunks_)) {}

  program run() {
    program_ = {strategy_.name(), rank_, size_, chunks_, is_fused<S>(), {}, {0}, {}, {}};
    std::vector<int> last_read(index(size_), -1);
    for (int k = 0; k < strategy_.rounds(size_); ++k) {
      const std::vector<operation> sent = sends(k);
      program_.operations.insert(program_.operations.end(), sent.begin(), sent.end());
      const std::vector<operation> received = receives(k, rank_);
      for (operation op : received) {
        add_hazards(op);
        program_.operations.push_back(op);
      }
      for (const operation& op : received)
        for (int c = op.first; c < op.first + op.count; ++c) readers_of_[index(c)].clear();
      for (const operation& op : sent) {
        for (int c = op.first; c < op.first + op.count; ++c) readers_of_[index(c)].push_back({op.peer, k});
        last_read[index(op.peer)] = k;
      }
      program_.round_begin.push_back(static_cast<int>(program_.operations.size()));
    }
    for (int peer = 0; peer < size_; ++peer)
      if (last_read[index(peer)] >= 0) program_.readers.push_back({peer, last_read[index(peer)]});
    return std::move(program_);
  }

 private:
  using kind = operation::kind;

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
          const kind what = message.what == effect::copy ? kind::copy : kind::add;
          if (message.what == effect::join) joined.push_back(c);
          else append(all, {what, d.round == k && d.receive == i, message.from, c, 1, 0, 0});
        }
        ++i;
      }
    });
    append_joins(all, joined, rank, [&](int chunk) { return divided[index(chunk)].round == k; });
    return all;
  }

  // Adds a chunk to the peer's last message if that may grow by it, else as a message of its own.
  static void append(std::vector<operation>& all, const operation& chunk) {
    for (auto op = all.rbegin(); op != all.rend(); ++op) {
      if (op->peer == chunk.peer) {
        if (op->what != chunk.what || op->divides != chunk.divides || op->first + op->count != chunk.first) break;
        ++op->count;
        return;
      }
      if (op->first <= chunk.first && chunk.first < op->first + op->count) break;  // an addition that was posted before this one
    }
    all.push_back(chunk);
  }

  // Every other rank sends each of the chunks.
  template <class Divides>
  void append_joins(std::vector<operation>& all, std::vector<int>& chunks, int rank, const Divides& divides) const {
    std::sort(chunks.begin(), chunks.end());
    chunks.erase(std::unique(chunks.begin(), chunks.end()), chunks.end());
    for (std::size_t begin = 0, end = 0; begin < chunks.size(); begin = end) {
      const bool divided = divides(chunks[begin]);
      for (end = begin + 1; end < chunks.size() && chunks[end] == chunks[end - 1] + 1 && divides(chunks[end]) == divided;) ++end;
      for (int peer = 0; peer < size_; ++peer)
        if (peer != rank) all.push_back({kind::join, divided, peer, chunks[begin], static_cast<int>(end - begin), 0, 0});
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
        all.push_back({kind::send, false, s.to, s.first, 1, 0, 0});
      } else if (left > 0) {
        for (const operation& op : receives(k, s.to))
          if (op.peer == rank_) all.push_back({kind::send, false, s.to, op.first, op.count, 0, 0});
        left = 0;  // all of them are done with the first
      }
    }
    return all;
  }

  void add_hazards(operation& op) {
    op.hazard_begin = static_cast<int>(program_.hazards.size());
    std::vector<hazard> reads;
    for (int c = op.first; c < op.first + op.count; ++c)
      for (const hazard& h : readers_of_[index(c)]) reads.push_back(h);
    const auto later_first = [](const hazard& a, const hazard& b) { return a.peer != b.peer ? a.peer < b.peer : a.round > b.round; };
    std::sort(reads.begin(), reads.end(), later_first);
    for (std::size_t i = 0; i < reads.size(); ++i)
      if (i == 0 || reads[i].peer != reads[i - 1].peer) program_.hazards.push_back(reads[i]);
    op.hazard_end = static_cast<int>(program_.hazards.size());
  }

  const S& strategy_;
  int rank_, size_, chunks_;
  std::vector<std::vector<division>> divisions_;  // per rank, once asked for
  std::vector<std::vector<hazard>> readers_of_;   // per chunk: who was sent it, and when, since it was last written
  program program_;
};

}  // namespace detail

/// The part of `rank` in a strategy that `verify` accepts for `size`; any other gives a program that no transport should run.
template <strategy S>
program compile(const S& s, int rank, int size) {
  return detail::compiler<S>{s, rank, size}.run();
}

}  // namespace gradsync
