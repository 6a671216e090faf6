// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// What processes that share memory have in common, and what they tell each other about failure: the same that threads do
/// (comm/failure.hpp), in memory of rank 0's, without a lock that a dead process could hold.
///
/// The first rank that fails puts its number down, then its cause in words; an exception itself cannot go to another process. A process
/// that dies without a word is noticed by whoever waits for it, within the 20 ms after which a wait looks around; one that says so wakes
/// them.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <poll.h>

#include "gradsync/comm/failure.hpp"
#include "gradsync/comm/flag.hpp"
#include "gradsync/comm/postings.hpp"
#include "gradsync/comm/shared_memory.hpp"
#include "gradsync/comm/socket.hpp"
#include "gradsync/core/deadline.hpp"
#include "gradsync/core/error.hpp"

namespace gradsync::detail {

using shared_flag = basic_flag<flag_scope::processes>;
using shared_slot = slot<flag_scope::processes>;

struct shared_extent {
  location at = 0;
  std::uint64_t first = 0, count = 0;
};

struct shared_lane : lane_of_flags<flag_scope::processes> {
  alignas(128) std::uint64_t slots = 0;
  location slots_at = 0;
};

struct shared_cause {
  static constexpr std::size_t most = 4000;

  bool mismatch = false;
  char text[most] = "";

  void write(const told_cause& told) {
    mismatch = told.mismatch;
    std::memcpy(text, told.text.c_str(), std::min(told.text.size() + 1, most - 1));
  }
};

struct shared_outcome {
  static constexpr int most_ranks = 256;
  enum : int { nothing, meanwhile, settled };

  struct alignas(64) rank_state {
    std::atomic<int> waits_for{-1};  // the rank that it sleeps for, or slept for in vain
    std::atomic<bool> gone{false};
  };

  std::atomic<int> failed{-1};  // the first rank that has
  std::atomic<int> known{nothing};
  shared_cause at_first, in_the_end;
  rank_state ranks[most_ranks];
};

// At the beginning of each segment. The outcome is in that of rank 0.
struct shared_header {
  static constexpr int most_channels = 4096;

  shared_outcome outcome;
  shared_lane lanes[most_channels];
};

static_assert(std::atomic<int>::is_always_lock_free && std::atomic<bool>::is_always_lock_free);

/// All that one process knows of its job.
struct process_job {
  process_job() = default;
  process_job(const process_job&) = delete;
  process_job& operator=(const process_job&) = delete;
  ~process_job() {
    if (heap) heap->close();
  }

  int rank = 0, size = 1;
  std::chrono::nanoseconds limit{};
  clock_source clock = nullptr;
  std::shared_ptr<shared_heap> heap{};                            // of the own segment
  std::vector<std::shared_ptr<const shared_segment>> segments{};  // by rank
  std::vector<int> processes{};                                   // by rank
  std::vector<descriptor> alive{};                                // by rank: has something to say when the process has ended
  std::vector<aligned_bytes> kept{};                              // of channels that have gone, for peers that look at them once more
  int next_channel = 0;

  /// Whoever sleeps for a rank looks around.
  void wake_all() const {
    for (int of = 0; of < size; ++of)
      for (int channel = 0; channel < next_channel; ++channel) {
        shared_lane& l = header(of).lanes[channel];
        l.opened.nudge();
        l.progress.nudge();
        if (!l.opened.reached(1)) continue;
        auto* const slots = reinterpret_cast<shared_slot*>(segments[static_cast<std::size_t>(of)]->data() + l.slots_at);
        for (std::size_t i = 0; i < l.slots; ++i) slots[i].posted.nudge();
      }
  }

  shared_header& header(int of) const { return *reinterpret_cast<shared_header*>(segments[static_cast<std::size_t>(of)]->data()); }
};

/// As a group sees it that is the job or a part of it; rank r of the group is rank `members[r]` of the job.
class process_outcome {
 public:
  process_outcome(std::shared_ptr<process_job> job, std::vector<int> members)
      : job_(std::move(job)), members_(std::move(members)), shared_(&job_->header(0).outcome) {}

  process_job& job() const { return *job_; }
  const std::shared_ptr<process_job>& shared_job() const { return job_; }
  int size() const { return static_cast<int>(members_.size()); }
  int whole(int rank) const { return members_[static_cast<std::size_t>(rank)]; }
  int rank() const { return static_cast<int>(std::find(members_.begin(), members_.end(), job_->rank) - members_.begin()); }

  bool failed() const { return shared_->failed.load(std::memory_order_seq_cst) >= 0; }

  /// As failure::fail, failure::abandon and failure::conclude, for the own rank.
  void fail(const std::exception_ptr& cause) const { put_down(cause, shared_outcome::settled); }
  void abandon(const std::exception_ptr& meanwhile) const { put_down(meanwhile, shared_outcome::meanwhile); }
  void conclude(const std::exception_ptr& cause) const {
    if (!put_down(cause, shared_outcome::settled) && shared_->failed == job_->rank && shared_->known == shared_outcome::meanwhile)
      write(cause, shared_outcome::settled);
  }

  /// Throws what a rank is told of another's failure; waits a second for its words at most.
  [[noreturn]] void report() const {
    const int first = shared_->failed.load();
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(1);
    while (first != job_->rank && shared_->known.load(std::memory_order_acquire) != shared_outcome::settled && !died(first) &&
           std::chrono::steady_clock::now() < until)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    const int known = shared_->known.load(std::memory_order_acquire);
    const shared_cause& cause = known == shared_outcome::settled ? shared_->in_the_end : shared_->at_first;
    const std::string text = name_of_member(first) + " failed" + (known == shared_outcome::nothing ? "" : ": " + std::string(cause.text));
    if (known != shared_outcome::nothing && cause.mismatch) throw mismatch_error(text, here());
    throw transport_error(text, here());
  }

  void leave() const {
    shared_->ranks[job_->rank].gone.store(true, std::memory_order_seq_cst);
    job_->wake_all();
  }
  /// Returns when all others have left. Throws if one of them has failed, or has died before.
  void await_others() const {
    for (int peer = 0; peer < size(); ++peer)
      for (;;) {
        if (failed()) report();
        const bool ended = died(whole(peer));  // looked at first: who has left may end
        if (gone(peer)) break;
        if (ended) throw_died(peer);
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    if (failed()) report();
  }
  bool gone(int peer) const { return shared_->ranks[whole(peer)].gone.load(std::memory_order_acquire); }

  /// Whether a rank of the job has ended, with or without a word.
  bool died(int of_job) const {
    const descriptor& alive = job_->alive[static_cast<std::size_t>(of_job)];
    pollfd one{alive.get(), POLLIN, 0};
    return alive && poll(&one, 1, 0) > 0;
  }
  [[noreturn]] void throw_died(int peer) const {
    throw transport_error(name(peer) + " has died (process " + std::to_string(job_->processes[static_cast<std::size_t>(whole(peer))]) + ")",
                          here());
  }

  std::chrono::steady_clock::time_point now() const { return job_->clock(); }
  bool passed(const deadline& until) const { return until.passed(job_->clock); }

  void waits_for(int peer) const { shared_->ranks[job_->rank].waits_for.store(peer < 0 ? -1 : whole(peer)); }

  /// Who did not come, when this rank waited for `peer` in vain: as failure::late.
  failure::latecomer late(int peer) const {
    int late = whole(peer), next = shared_->ranks[late].waits_for.load();
    for (int i = 0; i < job_->size && next >= 0 && next != job_->rank; ++i) {
      late = next;
      next = shared_->ranks[late].waits_for.load();
    }
    return {name_of_member(late), next == job_->rank};
  }

  place at(int rank) const { return {.rank = rank, .step = -1, .bucket = -1, .parameter = {}, .whole = other_number(rank)}; }
  place here() const { return at(rank()); }
  std::string name(int rank) const { return name_of_rank(rank, other_number(rank)); }

 private:
  int other_number(int rank) const { return whole(rank) == rank ? -1 : whole(rank); }
  std::string name_of_member(int of_job) const {
    const auto at = std::find(members_.begin(), members_.end(), of_job);
    return at == members_.end() ? "rank " + std::to_string(of_job) + " of the whole group" : name(static_cast<int>(at - members_.begin()));
  }

  // Whether this rank is the first.
  bool put_down(const std::exception_ptr& cause, int state) const {
    int nobody = -1;
    if (!shared_->failed.compare_exchange_strong(nobody, job_->rank)) return false;
    write(cause, state);
    return true;
  }
  void write(const std::exception_ptr& cause, int state) const {
    const told_cause told = cause ? tell(cause) : told_cause{"its thread was ended from within"};
    (state == shared_outcome::settled ? shared_->in_the_end : shared_->at_first).write(told);
    shared_->known.store(state, std::memory_order_release);
    job_->wake_all();
  }

  std::shared_ptr<process_job> job_;
  std::vector<int> members_;
  shared_outcome* shared_;
};

}  // namespace gradsync::detail
