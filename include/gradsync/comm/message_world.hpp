// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// What every world of comm/message_communicator.hpp knows of itself, however its messages travel: which rank this is of how many, in the
/// whole group or in a part of it, and whether the group has failed.
#pragma once

#include <chrono>
#include <memory>
#include <span>
#include <utility>

#include "gradsync/comm/failure.hpp"
#include "gradsync/core/error.hpp"

namespace gradsync::detail {

class message_world {
 public:
  int rank() const { return rank_; }
  int size() const { return size_; }
  place place_of(int rank) const { return outcome_->at(rank); }
  std::chrono::steady_clock::time_point now() const { return outcome_->now(); }

  bool failed() const { return outcome_->failed(); }
  void check() const {
    if (failed()) outcome_->report(rank_);
  }

 protected:
  message_world(std::shared_ptr<failure> outcome, int rank, int size, int number)
      : outcome_(std::move(outcome)), rank_(rank), size_(size), number_(number) {}

  /// From now on only these ranks, of which this one is number `rank`.
  void narrow(std::span<const int> members, int rank, int number) {
    outcome_ = std::make_shared<failure>(*outcome_, members);
    rank_ = rank;
    size_ = static_cast<int>(members.size());
    number_ = number;
    opened_ = 0;
  }

  std::shared_ptr<failure> outcome_;
  int rank_, size_;
  int number_, opened_ = 0;  // what marks its messages: its own number, and that of the endpoint in it
};

}  // namespace gradsync::detail
