// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// The first messages of each update, and of each call for a user's own values, between ranks that pass messages: every rank tells every
/// other what it asks for. So ranks that
/// disagree find out before anything moves, and each knows all parts of Σw. Values that fit travel along.
///
/// Cost: one message of 64 bytes to each peer, all at once.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "gradsync/comm/call.hpp"
#include "gradsync/comm/endpoint.hpp"
#include "gradsync/core/arithmetic.hpp"
#include "gradsync/core/dtype.hpp"

namespace gradsync::detail {

class roll_call {
 public:
  static constexpr std::size_t room = 32;  // bytes of values that travel along

  struct entry {
    std::uint64_t count = 0, program = 0;  // `program`: what is equal for ranks that run the same one
    double weight = 0;
    std::int32_t call = 0;
    dtype type = dtype::float32;
    alignas(8) std::array<std::byte, room> values{};
  };

  explicit roll_call(int size) : entries_(static_cast<std::size_t>(size)), weights_(entries_.size()) {}

  /// In slot 0.
  template <endpoint Endpoint>
  void begin(Endpoint& own, const entry& mine) {
    const auto bytes = [](entry& e) { return reinterpret_cast<std::byte*>(&e); };
    entries_[static_cast<std::size_t>(own.rank())] = mine;
    own.begin(0);
    for (int peer = 0; peer < own.size(); ++peer) {
      if (peer == own.rank()) continue;
      own.send(bytes(entries_[static_cast<std::size_t>(own.rank())]), sizeof(entry), peer);
      own.receive(bytes(entries_[static_cast<std::size_t>(peer)]), sizeof(entry), peer);
    }
    own.commit();
  }

  /// Whether all have answered. `mismatch_error` if some peer asks for something else. `strategy` is this rank's, for that error.
  template <endpoint Endpoint>
  bool answered(Endpoint& own, const std::string& strategy, const deadline& until) {
    if (!own.arrived(0, until)) return false;
    const entry& ours = entries_[static_cast<std::size_t>(own.rank())];
    for (int peer = 0; peer < own.size(); ++peer) {
      const entry& theirs = entries_[static_cast<std::size_t>(peer)];
      if (asked(theirs) != asked(ours)) check_alike(asked(ours), asked(theirs), own.name(peer), own.here());
      if (theirs.program != ours.program) throw_other_strategy(own.name(peer), strategy, own.here());
    }
    return true;
  }

  entry& of(int rank) { return entries_[static_cast<std::size_t>(rank)]; }

  /// The sum of all parts, added in the canonical tree.
  double total_weight() {
    std::vector<double*> at;
    for (std::size_t rank = 0; rank < entries_.size(); ++rank) {
      weights_[rank] = entries_[rank].weight;
      at.push_back(&weights_[rank]);
    }
    reduce_all<reduce_op::sum>(at.data(), static_cast<int>(at.size()), 1);
    return weights_[0];
  }

 private:
  static request asked(const entry& e) { return {e.call, static_cast<std::size_t>(e.count), e.type}; }

  std::vector<entry> entries_;  // by rank; messages are under way in them, wherever this object is moved
  std::vector<double> weights_;
};

}  // namespace gradsync::detail
