// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// How long a strategy takes, by the α-β-γ model (Thakur, Rabenseifner, Gropp 2005, section 3).
///
/// In each round a rank needs messages · α + bytes moved · β + bytes added · γ, where sending and receiving go on at the same time, so
/// that the larger of the two counts. A round takes as long as its busiest rank; rounds follow each other. The division, the copy home of
/// what ends in scratch, and whatever a fused pass saves are left out.
///
///     cost(ring{}, link{.alpha = 1e-6, .beta = 1e-10, .gamma = 2e-11}, 4, 1e6)   // 171e-6: 6 α + 1.5e6 β + 0.75e6 γ
///
/// For many numbers of bytes `cost_curve` counts the messages once:
///     const cost_curve seconds(ring{}, 4);
///     seconds(wire, 1e6);                                                        // the same
#pragma once

#include "gradsync/collective/any_strategy.hpp"
#include "gradsync/collective/schedule.hpp"
#include "gradsync/core/link.hpp"
#include "gradsync/core/series.hpp"

namespace gradsync {

namespace detail {

// What one rank does in one round: messages one way, and chunks moved one way and added.
struct traffic {
  int messages = 0, moved = 0, added = 0;

  constexpr double seconds(const link& wire, double chunk_bytes) const {
    return messages * wire.alpha + chunk_bytes * (moved * wire.beta + added * wire.gamma);
  }
  constexpr bool covers(const traffic& other) const { return messages >= other.messages && moved >= other.moved && added >= other.added; }
};

constexpr traffic traffic_of(const series<message>& posted) {
  traffic out, in;
  for (const message& m : posted) {
    traffic& way = m.sends ? out : in;
    ++way.messages;
    way.moved += m.count;
    in.added += m.sends || m.what == effect::copy ? 0 : m.count;
  }
  return {out.messages > in.messages ? out.messages : in.messages, out.moved > in.moved ? out.moved : in.moved, in.added};
}

}  // namespace detail

/// Seconds that an all-reduce of `bytes` bytes takes among `size` ranks over links that are all alike.
constexpr double cost(const any_strategy& s, const link& wire, double bytes) {
  series<message> posted;
  double seconds = 0;
  for (int k = 0; k < s.rounds; ++k) {
    double busiest = 0;
    for (int rank = 0; rank < s.size; ++rank) {
      posted.clear();
      s.post(k, rank, posted);
      const double time = detail::traffic_of(posted).seconds(wire, bytes / s.chunks);
      if (time > busiest) busiest = time;
    }
    seconds += busiest;
  }
  return seconds;
}
template <strategy S>
constexpr double cost(const S& s, const link& wire, int size, double bytes) {
  return cost(erased_strategy<S>(s, size), wire, bytes);
}

/// `cost` of one strategy and number of ranks, for any link and number of bytes.
class cost_curve {
 public:
  explicit cost_curve(const any_strategy& s) : chunks_(s.chunks), rounds_(detail::index(s.rounds)) {
    series<message> posted;
    for (int k = 0; k < s.rounds; ++k)
      for (int rank = 0; rank < s.size; ++rank) {
        posted.clear();
        s.post(k, rank, posted);
        add(rounds_[detail::index(k)], detail::traffic_of(posted));
      }
  }
  template <strategy S>
  cost_curve(const S& s, int size) : cost_curve(erased_strategy<S>(s, size)) {}

  double operator()(const link& wire, double bytes) const {
    double seconds = 0;
    for (const auto& busy : rounds_) {
      double busiest = 0;
      for (const detail::traffic& one : busy)
        if (const double time = one.seconds(wire, bytes / chunks_); time > busiest) busiest = time;
      seconds += busiest;
    }
    return seconds;
  }

 private:
  // Most ranks of a round do the same, or less than another one.
  static void add(series<detail::traffic>& busy, const detail::traffic& one) {
    for (const detail::traffic& other : busy)
      if (other.covers(one)) return;
    busy.push_back(one);
  }

  int chunks_;
  series<series<detail::traffic>> rounds_;
};

}  // namespace gradsync
