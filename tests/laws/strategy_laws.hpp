// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// The laws of a strategy, for those of the library and for yours. Include it in a doctest file and call it in a test case:
///
///     TEST_CASE("my strategy obeys the laws") { gradsync::laws::strategy_laws(my_strategy{}); }
///
/// For every size up to `largest` it checks that the proof holds as claimed; that any round can be asked for at any time; that messages fit
/// together; and, with real numbers and nothing but the compiled programs, that the mean comes out: integers exactly, random floats with
/// the same bits on all ranks (those of a scalar tree sum if canonical). Programs are played twice: round by round, and by ranks that read
/// each other's memory in a random order which nothing but the hazards restrains. A size that the strategy refuses does not count.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "gradsync/collective/compile.hpp"
#include "gradsync/collective/placement.hpp"
#include "gradsync/collective/schedule.hpp"
#include "gradsync/collective/verify.hpp"

namespace gradsync::laws {

/// The proof holds, for exactly the claimed level.
template <strategy S>
constexpr bool proved(const S& s, int size) {
  const proof p = verify(s, size);
  return p.holds() && p.sound() && p.reproducibility == s.claim(size);
}

template <strategy S>
std::vector<program> compile_all(const S& s, int size) {
  const placement places(s, size);
  std::vector<program> programs;
  for (int rank = 0; rank < size; ++rank) programs.push_back(compile(s, rank, places));
  return programs;
}

using buffer = std::vector<float>;
using detail::index;

/// `count` elements for each of `size` ranks; numbers whose sum depends on the order of additions, or (integers) does not.
inline std::vector<buffer> random_buffers(int size, int count, bool integers, unsigned seed) {
  std::mt19937 random{seed};
  std::uniform_real_distribution<float> real{-1, 1};
  std::uniform_int_distribution<int> integer{-1000, 1000}, exponent{-6, 6};
  std::vector<buffer> buffers(index(size), buffer(index(count)));
  for (buffer& b : buffers)
    for (float& x : b) x = integers ? static_cast<float>(integer(random)) : std::ldexp(real(random), exponent(random));
  return buffers;
}

/// ranks first .. first + count - 1, added in the canonical tree; written without the library on purpose.
inline float scalar_tree(const std::vector<buffer>& of, std::size_t element, std::size_t first, std::size_t count) {
  if (count == 1) return of[first][element];
  std::size_t left = 1;
  while (2 * left < count) left *= 2;
  return scalar_tree(of, element, first, left) + scalar_tree(of, element, first + left, count - left);
}

inline buffer tree_mean(const std::vector<buffer>& of, float weight) {
  buffer mean(of[0].size());
  for (std::size_t i = 0; i < mean.size(); ++i) mean[i] = scalar_tree(of, i, 0, of.size()) / weight;
  return mean;
}

inline bool same_bits(const buffer& a, const buffer& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

/// Chunks are as equal as whole elements allow; with fewer elements than chunks some are empty.
inline std::size_t first_element(std::size_t count, int chunks, int chunk) { return count * index(chunk) / index(chunks); }

/// How many operations from `i` on are performed together: a whole join, else one.
inline std::size_t together(std::span<const operation> ops, std::size_t i) {
  std::size_t n = 1;
  if (ops[i].what == operation::kind::join)
    while (i + n < ops.size() && ops[i + n].what == operation::kind::join && ops[i + n].first == ops[i].first) ++n;
  return n;
}

/// What a rank holds: its buffer, and in scratch the second places of some of the elements, numbers at first that no sum survives.
struct holding {
  holding(const program& p, buffer lent)
      : values(std::move(lent)), scratch_begin(first_element(values.size(), p.chunks, p.scratch_first)),
        scratch(first_element(values.size(), p.chunks, p.scratch_first + p.scratch_count) - scratch_begin, std::nanf("")) {}

  float& at(region where, std::size_t i) { return where == region::buffer ? values.at(i) : scratch.at(i - scratch_begin); }

  buffer values;
  std::size_t scratch_begin;
  buffer scratch;
};

inline std::vector<holding> held_by(const std::vector<program>& programs, const std::vector<buffer>& buffers) {
  std::vector<holding> all;
  for (std::size_t rank = 0; rank < programs.size(); ++rank) all.emplace_back(programs[rank], buffers[rank]);
  return all;
}

inline std::vector<buffer> values_of(const std::vector<holding>& all) {
  std::vector<buffer> values;
  for (const holding& h : all) values.push_back(h.values);
  return values;
}

/// Performs an operation, or the operations of a join, of program `p` on `mine`, reading what peers hold from `peers`.
inline void perform(const program& p, std::span<const operation> now, std::vector<holding>& peers, holding& mine, float weight) {
  const operation& op = now[0];
  const std::size_t last = first_element(mine.values.size(), p.chunks, op.first + op.count);
  for (std::size_t i = first_element(mine.values.size(), p.chunks, op.first); i < last; ++i) {
    std::vector<buffer> joined(peers.size());
    if (op.what == operation::kind::join) joined[index(p.rank)] = {mine.at(op.own, i)};
    for (const operation& each : now) joined[index(each.peer)] = {peers[index(each.peer)].at(each.from, i)};
    const float theirs = joined[index(op.peer)][0];
    float& to = mine.at(op.to, i);
    if (op.what == operation::kind::copy) to = theirs;
    if (op.what == operation::kind::add) to = mine.at(op.own, i) + theirs;
    if (op.what == operation::kind::join) to = scalar_tree(joined, 0, 0, joined.size());
    if (op.divides) to /= weight;
  }
}

/// All ranks, round by round: every receive sees what its peer held before the round. `rounds` < 0: all.
inline std::vector<holding> play(const std::vector<program>& programs, const std::vector<buffer>& buffers, float weight, int rounds = -1) {
  std::vector<holding> all = held_by(programs, buffers);
  for (int k = 0; k < (rounds < 0 ? programs[0].rounds() : rounds); ++k) {
    std::vector<holding> before = all;
    for (const program& p : programs) {
      const auto ops = p.round(k);
      for (std::size_t i = 0; i < ops.size(); i += together(ops, i))
        if (ops[i].what != operation::kind::send) perform(p, ops.subspan(i, together(ops, i)), before, all[index(p.rank)], weight);
    }
  }
  return all;
}

inline std::vector<buffer> played(const std::vector<program>& programs, const std::vector<buffer>& buffers, float weight) {
  return values_of(play(programs, buffers, weight));
}

/// All ranks in one memory, operation by operation in a random order, as far as readiness and hazards let them. Empty if they get stuck.
inline std::vector<buffer> pulled(const std::vector<program>& programs, const std::vector<buffer>& buffers, float weight, unsigned seed) {
  std::mt19937 random{seed};
  std::vector<holding> all = held_by(programs, buffers);
  const std::size_t size = programs.size();
  std::vector<int> done(size, 0);            // rounds
  std::vector<std::size_t> next(size, 0);    // operation of the round under way
  const auto step = [&](std::size_t rank) {  // false: nothing to do, or not allowed yet
    const program& p = programs[rank];
    if (done[rank] == p.rounds()) return false;
    const auto ops = p.round(done[rank]);
    while (next[rank] < ops.size() && ops[next[rank]].what == operation::kind::send) ++next[rank];
    if (next[rank] < ops.size()) {
      const std::size_t n = together(ops, next[rank]);
      for (const operation& op : ops.subspan(next[rank], n)) {
        if (done[index(op.peer)] < done[rank]) return false;
        for (int h = op.hazard_begin; h < op.hazard_end; ++h)
          if (done[index(p.hazards[index(h)].peer)] <= p.hazards[index(h)].round) return false;
      }
      perform(p, ops.subspan(next[rank], n), all, all[rank], weight);
      next[rank] += n;
    }
    if (next[rank] >= ops.size()) {
      ++done[rank];
      next[rank] = 0;
    }
    return true;
  };
  for (;;) {
    // One rank is driven as far as it goes more often than not: the widest lead finds a missing hazard.
    const std::size_t first = random() % size;
    bool moved = false;
    for (std::size_t i = 0; i < size && !moved; ++i) {
      for (unsigned burst = random() % 3 == 0 ? 1 : 100; burst > 0 && step((first + i) % size); --burst) moved = true;
    }
    if (moved) continue;
    for (std::size_t rank = 0; rank < size; ++rank)
      if (done[rank] != programs[rank].rounds()) return {};
    return values_of(all);
  }
}

/// In every round the sends of each pair are the reads of its other end, in order, with the same ranges and places.
inline bool messages_match(const std::vector<program>& programs) {
  using message = std::tuple<int, int, region>;
  for (int k = 0; k < programs[0].rounds(); ++k)
    for (const program& from : programs)
      for (const program& to : programs) {
        std::vector<message> sent, read;
        for (const operation& op : from.round(k))
          if (op.what == operation::kind::send && op.peer == to.rank) sent.push_back({op.first, op.count, op.from});
        for (const operation& op : to.round(k))
          if (op.what != operation::kind::send && op.peer == from.rank && from.rank != to.rank)
            read.push_back({op.first, op.count, op.from});
        if (sent != read) return false;
      }
  return true;
}

/// Sent by one rank in all rounds, when the buffer has `bytes` bytes.
inline double bytes_sent(const program& p, double bytes) {
  double sent = 0;
  for (const operation& op : p.operations) sent += op.what == operation::kind::send ? bytes * op.count / p.chunks : 0;
  return sent;
}

inline int messages_sent(const program& p) {
  int sent = 0;
  for (const operation& op : p.operations) sent += op.what == operation::kind::send ? 1 : 0;
  return sent;
}

/// What a rank must keep beside its buffer where peers' memory can't be read: all that arrives in one round to be added.
inline double arriving_bytes(const program& p, double bytes) {
  double most = 0;
  for (int k = 0; k < p.rounds(); ++k) {
    double arriving = 0;
    for (const operation& op : p.round(k))
      if (op.what == operation::kind::add || op.what == operation::kind::join) arriving += bytes * op.count / p.chunks;
    most = std::max(most, arriving);
  }
  return most;
}

/// What a rank posts in a round, sends as (0, to, first, count, 0), receives as (1, from, first, count, effect).
using posts = std::vector<std::tuple<int, int, int, int, int>>;

template <strategy S>
posts posted(const S& s, int k, int rank, int size) {
  posts all;
  s.round(k, rank, size, [&](auto message) {
    if constexpr (std::is_same_v<decltype(message), send>) all.push_back({0, message.to, message.first, message.count, 0});
    else all.push_back({1, message.from, message.first, message.count, static_cast<int>(message.what)});
  });
  return all;
}

/// Rounds asked for in descending order, then again in ascending order, are the same.
template <strategy S>
bool any_round_any_time(const S& s, int size) {
  std::vector<posts> down;
  for (int k = s.rounds(size) - 1; k >= 0; --k)
    for (int rank = size - 1; rank >= 0; --rank) down.push_back(posted(s, k, rank, size));
  for (int k = 0; k < s.rounds(size); ++k)
    for (int rank = 0; rank < size; ++rank, down.pop_back())
      if (down.back() != posted(s, k, rank, size)) return false;
  return down.empty();
}

/// After the reduce-scatter half each owner holds the mean of its chunks.
template <sharding S>
void sharding_laws(const S& s, const std::vector<program>& programs) {
  const int size = static_cast<int>(programs.size()), chunks = s.chunks(size);
  CHECK(s.reduce_rounds(size) <= s.rounds(size));
  const auto input = random_buffers(size, 3 * chunks, true, 5);
  const float weight = size == 1 ? 1.0f : 7.0f;  // one rank does not divide
  const placement places(s, size);
  auto halfway = play(programs, input, weight, s.reduce_rounds(size));
  const buffer mean = tree_mean(input, weight);
  bool whole = true;
  for (int c = 0; c < chunks; ++c) {
    const int owner = s.owner(c, size);
    REQUIRE((owner >= 0 && owner < size));
    const region where = places.before(s.reduce_rounds(size), owner, c);
    for (int i = 3 * c; i < 3 * c + 3; ++i) whole = whole && halfway[index(owner)].at(where, index(i)) == mean[index(i)];
  }
  CHECK(whole);
}

/// A program of a strategy that is in place says nothing of scratch. Any other needs it for the chunks that the proof counts, at most.
inline void scratch_laws(const std::vector<program>& programs, const proof& p) {
  int most = 0;
  bool all_in_buffer = true;
  for (const program& each : programs) {
    most = std::max(most, each.scratch_count);
    for (const operation& op : each.operations)
      all_in_buffer = all_in_buffer && op.from == region::buffer && op.own == region::buffer && op.to == region::buffer;
  }
  CHECK(most == p.scratch_chunks);
  CHECK(p.in_place == all_in_buffer);
  CHECK(p.in_place == (most == 0));
}

/// The mean of `count` elements, played both ways, for a strategy of the level `proved_level`.
inline void mean_laws(const std::vector<program>& programs, level proved_level, int count) {
  INFO("elements: " << count);
  const int size = static_cast<int>(programs.size());
  const float weight = size == 1 ? 1.0f : 7.0f;
  for (const bool integers : {true, false}) {
    const auto input = random_buffers(size, count, integers, 3);
    const auto result = played(programs, input, weight);
    const bool exact = integers || proved_level == level::canonical;
    const buffer& expected = exact ? tree_mean(input, weight) : result[0];
    bool right = true;
    for (const buffer& b : result) right = right && same_bits(b, expected);
    CHECK(right);
    for (unsigned seed = 1; seed <= 3; ++seed) CHECK(pulled(programs, input, weight, seed) == result);
  }
}

template <strategy S>
void strategy_laws(const S& s, int largest = 9) {
  int proved_sizes = 0;
  for (int size = 1; size <= largest; ++size) {
    INFO("strategy " << s.name() << " on " << size << " ranks");
    const proof p = verify(s, size);
    if (const char* why = refusal(s, size)) {
      CHECK(p.first == violation{.what = violation::kind::refused_size, .reason = why});
      CHECK(describe(p.first).size() > 10);
      CHECK_FALSE(p.sound());
      continue;
    }
    ++proved_sizes;
    REQUIRE_MESSAGE(p.holds(), describe(p.first));
    CHECK(p.sound());
    CHECK(p.reproducibility >= s.claim(size));
    CHECK(any_round_any_time(s, size));
    const auto programs = compile_all(s, size);
    CHECK(messages_match(programs));
    scratch_laws(programs, p);
    if (p.in_place) CHECK(programs[0].rounds() == s.rounds(size));
    for (const int count : {0, 1, 3, 3 * s.chunks(size) + 1}) mean_laws(programs, p.reproducibility, count);
    if constexpr (sharding<S>) sharding_laws(s, programs);
  }
  CHECK(proved_sizes > 0);
}

}  // namespace gradsync::laws
