// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// Strategies that nobody would train with, but that ask of programs and transports what those of the library don't: joins on one rank or
/// on all at once, copies that overtake each other, several additions beside a send, hazards that nothing else covers.
#pragma once

#include <type_traits>

#include "gradsync/collective/schedule.hpp"

namespace gradsync::laws {

/// A message as both of its ends post it.
template <class Post>
constexpr void pass(int rank, send what, int from, effect then, Post&& post) {
  if (rank == from) post(what);
  if (rank == what.to) post(receive{from, what.first, what.count, then});
}

/// All additions on rank 0, by a join; one chunk, so that most ranks have nothing to add. Stands on the first page of schedule.hpp.
struct everyone_to_rank_0 {
  constexpr const char* name() const { return "everyone_to_rank_0"; }
  constexpr level claim(int) const { return level::canonical; }
  constexpr int chunks(int) const { return 1; }
  constexpr int rounds(int size) const { return size > 1 ? 2 : 0; }
  template <class Post>
  constexpr void round(int k, int rank, int size, Post&& post) const {
    if (k == 0 && rank > 0) post(send{0, 0, 1});
    if (k == 1 && rank > 0) post(receive{0, 0, 1, effect::copy});
    for (int peer = 1; rank == 0 && peer < size; ++peer) {
      if (k == 0) post(receive{peer, 0, 1, effect::join});
      else post(send{peer, 0, 1});
    }
  }
};

/// Everyone gives all it has to everyone, and joins: one round, and every rank writes what it sends.
struct everyone_joins {
  int parts = 3;

  constexpr const char* name() const { return "everyone_joins"; }
  constexpr level claim(int) const { return level::canonical; }
  constexpr int chunks(int) const { return parts; }
  constexpr int rounds(int size) const { return size > 1 ? 1 : 0; }
  template <class Post>
  constexpr void round(int, int rank, int size, Post&& post) const {
    for (int peer = 0; peer < size; ++peer) {
      if (peer == rank) continue;
      post(send{peer, 0, parts});
      post(receive{peer, 0, parts, effect::join});
    }
  }
};

/// The sum of rank 0 goes down the line, and each rank hands on what it has had so far, round after round: copies into what is being sent.
struct handed_down {
  constexpr const char* name() const { return "handed_down"; }
  constexpr level claim(int) const { return level::canonical; }
  constexpr int chunks(int) const { return 1; }
  constexpr int rounds(int size) const { return size > 1 ? size : 0; }
  template <class Post>
  constexpr void round(int k, int rank, int size, Post&& post) const {
    if (k == 0) return everyone_to_rank_0{}.round(0, rank, size, post);
    for (int to = 1; to < size; ++to) pass(rank, {to, 0, 1}, to - 1, effect::copy, post);
  }
};

/// Three ranks. Rank 0 adds both others while rank 1 reads what it had; what rank 1 makes of it is of no use.
struct added_beside_a_send {
  constexpr const char* name() const { return "added_beside_a_send"; }
  constexpr const char* refuses(int size) const { return size == 3 ? nullptr : "added_beside_a_send is for three ranks"; }
  constexpr level claim(int) const { return level::canonical; }
  constexpr int chunks(int) const { return 2; }
  constexpr int rounds(int) const { return 2; }
  template <class Post>
  constexpr void round(int k, int rank, int, Post&& post) const {
    for (int peer = 1; peer < 3; ++peer) {
      if (k == 0) pass(rank, {0, 0, 2}, peer, effect::add, post);
      else pass(rank, {peer, 0, 2}, 0, effect::copy, post);
    }
    if (k == 0) pass(rank, {1, 1, 1}, 0, effect::add, post);
  }
};

/// Three ranks, two chunks. Rank 0 gives what it has to rank 1, in two rounds, and then adds rank 2's to it, for no use: rank 2 completes
/// the sum. Nothing but the hazard keeps that addition behind rank 1's reading. (What overwrites a chunk in a ring has passed its reader.)
struct wasteful {
  constexpr const char* name() const { return "wasteful"; }
  constexpr const char* refuses(int size) const { return size == 3 ? nullptr : "wasteful is for three ranks"; }
  constexpr level claim(int) const { return level::uniform; }
  constexpr int chunks(int) const { return 2; }
  constexpr int rounds(int) const { return 5; }
  template <class Post>
  constexpr void round(int k, int rank, int, Post&& post) const {
    if (k < 2) pass(rank, {1, k, 1}, 0, effect::add, post);
    if (k == 2) pass(rank, {0, 0, 2}, 2, effect::add, post);
    if (k == 3) pass(rank, {2, 0, 2}, 1, effect::add, post);
    for (int peer = 0; k == 4 && peer < 2; ++peer) pass(rank, {peer, 0, 2}, 2, effect::copy, post);
  }
};

/// Two strategies side by side: the first on the first chunks, the second on the others, in the same rounds.
template <strategy First, strategy Second>
struct beside {
  First first;
  Second second;

  constexpr const char* name() const { return "beside"; }
  constexpr level claim(int) const { return level::agreed; }
  constexpr int chunks(int size) const { return first.chunks(size) + second.chunks(size); }
  constexpr int rounds(int size) const { return first.rounds(size) > second.rounds(size) ? first.rounds(size) : second.rounds(size); }
  template <class Post>
  constexpr void round(int k, int rank, int size, Post&& post) const {
    if (k < first.rounds(size)) first.round(k, rank, size, post);
    if (k < second.rounds(size))
      second.round(k, rank, size, [&](auto message) {
        message.first += first.chunks(size);
        post(message);
      });
  }
};

/// Another strategy, its messages cut into single chunks: the program has to put them together again.
template <strategy Inner>
struct chunk_by_chunk {
  Inner inner;

  constexpr const char* name() const { return "chunk_by_chunk"; }
  constexpr level claim(int size) const { return inner.claim(size); }
  constexpr int chunks(int size) const { return inner.chunks(size); }
  constexpr int rounds(int size) const { return inner.rounds(size); }
  template <class Post>
  constexpr void round(int k, int rank, int size, Post&& post) const {
    inner.round(k, rank, size, [&](auto message) {
      for (int c = 0; c < message.count; ++c) {
        auto part = message;
        part.first = message.first + c;
        part.count = 1;
        post(part);
      }
    });
  }
};

}  // namespace gradsync::laws
