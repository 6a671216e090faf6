// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// What the ranks of an NCCL communicator know of each other beside NCCL: who has failed and why, and, where they are threads of one
/// process, what each has asked for so far.
///
/// NCCL does not compare what ranks ask for: where they differ it waits for ever. Threads of one process call the roll with each
/// collective, so a difference is an error on the spot, and a deadline names the rank that has not come. Between processes the deadline
/// alone finds it.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "gradsync/comm/failure.hpp"
#include "gradsync/comm/thread_communicator.hpp"  // where the ranks of one process meet
#include "gradsync/core/deadline.hpp"
#include "gradsync/core/dtype.hpp"
#include "gradsync/core/error.hpp"

namespace gradsync {

/// How the memory that gradients are summed in is made known to NCCL, which then needs no copies of its own. Windows (NCCL 2.27) are made
/// by all ranks together, and fall back to local registration (2.19), which each rank does alone. `automatic`: locally, where that works.
enum class nccl_registration { automatic, window, local, none };

/// What the watchdog does to the communicator of a rank that has failed. A revoked one (NCCL 2.28) can still be shrunk to the ranks that
/// live on.
enum class nccl_ending { abort, revoke };

struct nccl_options {
  std::chrono::nanoseconds deadline = std::chrono::minutes(10);  ///< from when the work before it is done, or from now
  clock_source clock = std::chrono::steady_clock::now;           ///< what reads the time, for tests
  int min_ctas = 0, max_ctas = 0;                                ///< thread blocks that NCCL may use; 0: its own choice for both
  nccl_registration registration = nccl_registration::automatic;
  nccl_ending on_failure = nccl_ending::abort;
};

namespace detail {

/// What a rank asks NCCL for; must be the same on all ranks. Names are copied, since those that compare them may outlive who said them.
struct nccl_request {
  nccl_request(const char* name = "", std::size_t elements = 0, dtype of_type = dtype::float32, int from = 0)
      : count(elements), type(of_type), root(from) {
    std::strncpy(what, name, sizeof what - 1);
  }

  char what[32] = {};
  std::size_t count;
  dtype type;
  int root;

  bool operator==(const nccl_request& b) const {
    return std::strcmp(what, b.what) == 0 && count == b.count && type == b.type && root == b.root;
  }
};

inline std::string text_of(const nccl_request& r) {
  std::string text = std::string(r.what) + " of " + std::to_string(r.count) + " elements of " + name_of(r.type);
  return r.root == 0 ? text : text + " from rank " + std::to_string(r.root);
}

/// The requests of all ranks in one process, by number.
class nccl_roll {
 public:
  explicit nccl_roll(int size) : next_(static_cast<std::size_t>(size)) {}

  /// Notes the next request of `rank`. Where another rank's request of the same number differs, what that was and whose.
  struct difference {
    int peer = -1;
    nccl_request theirs = {};
  };
  difference answer(int rank, const nccl_request& mine) {
    const std::lock_guard hold(mutex_);
    const std::uint64_t number = next_[static_cast<std::size_t>(rank)]++;
    if (number - first_ == open_.size()) open_.push_back({mine, rank});
    const roll& one = open_[static_cast<std::size_t>(number - first_)];
    const difference found = one.request == mine ? difference{} : difference{one.rank, one.request};
    forget();
    return found;
  }

  /// The first rank that has not come as far as request `number`; -1: all have.
  int absent(std::uint64_t number) const {
    const std::lock_guard hold(mutex_);
    for (std::size_t rank = 0; rank < next_.size(); ++rank)
      if (next_[rank] <= number) return static_cast<int>(rank);
    return -1;
  }

 private:
  struct roll {
    nccl_request request;
    int rank;  // that asked first
  };

  void forget() {
    std::uint64_t least = next_[0];
    for (const std::uint64_t next : next_) least = next < least ? next : least;
    for (; first_ < least; ++first_) open_.pop_front();
  }

  mutable std::mutex mutex_;
  std::vector<std::uint64_t> next_;  // by rank
  std::deque<roll> open_;            // from number first_ on
  std::uint64_t first_ = 0;
};

/// Shared by the ranks of one process, or one rank's own.
struct nccl_world {
  nccl_world(int ranks, const nccl_options& chosen, std::shared_ptr<failure> shared_outcome)
      : size(ranks), options(chosen), outcome(std::move(shared_outcome)) {}

  int size;
  nccl_options options;
  std::shared_ptr<failure> outcome;
  std::unique_ptr<nccl_roll> roll = nullptr;  // of ranks in one process
  meeting_point<nccl_world> parts = {};
};

/// For ranks that are threads of this process.
inline std::shared_ptr<nccl_world> shared_world(int size, const nccl_options& options, std::shared_ptr<failure> outcome) {
  auto world = std::make_shared<nccl_world>(size, options, std::move(outcome));
  world->roll = std::make_unique<nccl_roll>(size);
  return world;
}

}  // namespace detail

}  // namespace gradsync
