// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// What the ranks of a group share about failure: the first cause, who had it, who has returned, and who waits for whom. It stays until the
/// group runs again.
///
/// A rank that fails says so before it unwinds, so that no peer waits for it; a peer that finds the group failed ends with an error that
/// quotes the cause: a `mismatch_error` if the cause is one, else a `transport_error`.
///
/// A part of a group shares the outcome of the whole: whoever fails in one part ends all. It sees it with its own numbers, so the two
/// never mix: `rank 1 (rank 5 of the whole group)`.
///
/// What C++ doesn't let us know: which exception unwinds a rank, before some function catches it. So a rank that is unwinding gives a cause
/// for the time being, and what leaves the rank's function replaces it. Of an exception that the function itself catches nobody learns.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <span>
#include <mutex>
#include <string>
#include <utility>

#include "gradsync/comm/flag.hpp"
#include "gradsync/core/affinity.hpp"
#include "gradsync/core/deadline.hpp"
#include "gradsync/core/error.hpp"
#include "gradsync/core/series.hpp"

namespace gradsync::detail {

/// What others are told of an exception.
struct told_cause {
  std::string text;
  bool mismatch = false;  ///< they get a mismatch_error
};
inline told_cause tell(const std::exception_ptr& cause) {
  try {
    std::rethrow_exception(cause);
  } catch (const mismatch_error& e) {
    return {e.what(), true};
  } catch (const std::exception& e) {
    return {e.what()};
  } catch (...) {
    return {"an exception of a type that gradsync does not know"};
  }
}

/// An exception of another process, as far as it could be told.
template <class Base>
struct told_error : Base {
  explicit told_error(const char* text) : Base(text), text_(text) {}
  const char* what() const noexcept override { return text_.c_str(); }
  std::string text_;
};

class failure {
  struct record;

 public:
  failure(int size, clock_source clock) : record_(new record(size, clock)) {
    for (int rank = 0; rank < size; ++rank) whole_.push_back(rank);
  }
  /// As a part of that group sees it; rank r of the part is rank `members[r]` there.
  failure(const failure& group, std::span<const int> members) : record_(group.record_) {
    for (int member : members) whole_.push_back(group.whole(member));
  }

  /// Ends all ranks' waits. The first cause stays. A null pointer stands for an end that C++ has no exception for.
  void fail(int rank, std::exception_ptr cause) {
    const std::lock_guard hold(record_->mutex);
    if (record_->failed.load(std::memory_order_relaxed) < 0) record_->set(whole(rank), std::move(cause), true);
  }

  /// The same for a rank that is unwinding, from an exception that only its outermost function will see.
  void abandon(int rank, std::exception_ptr meanwhile) {
    const std::lock_guard hold(record_->mutex);
    if (record_->failed.load(std::memory_order_relaxed) < 0) record_->set(whole(rank), std::move(meanwhile), false);
  }

  /// All sleepers look at the clock again.
  void wake() const {
    const std::lock_guard hold(record_->mutex);
    record_->wake_sleepers();
  }

  /// From the outermost function: what the rank has really failed of.
  void conclude(int rank, std::exception_ptr cause) {
    const std::lock_guard hold(record_->mutex);
    const int first = record_->failed.load(std::memory_order_relaxed);
    if (first < 0 || (first == whole(rank) && !record_->settled)) record_->set(whole(rank), std::move(cause), true);
  }

  /// Whether the whole group has more ranks than the process could use processors when it was made.
  bool crowded() const { return record_->crowded; }

  bool failed() const { return record_->failed.load(std::memory_order_seq_cst) >= 0; }
  std::exception_ptr cause() const { return record_->cause; }

  /// Throws what a rank is told of another's failure. Not to be called while the rank is in a peer's memory: waits, for a second at most,
  /// for an abandoning rank's real cause.
  [[noreturn]] void report(int rank) const {
    std::unique_lock hold(record_->mutex);
    const int first = record_->failed.load(std::memory_order_relaxed);
    if (first != whole(rank)) record_->changed.wait_for(hold, std::chrono::seconds(1), [&] { return record_->settled; });
    const std::string text = name_of_member(first) + " failed: " + record_->told.text;
    if (record_->told.mismatch) throw mismatch_error(text, at(rank));
    throw transport_error(text, at(rank));
  }

  void leave(int rank) {
    record_->gone[index(whole(rank))].store(true, std::memory_order_release);
    const std::lock_guard hold(record_->mutex);
    if (record_->failed.load(std::memory_order_relaxed) == whole(rank)) record_->settled = true;
    record_->changed.notify_all();
    record_->wake_sleepers();
  }
  bool gone(int rank) const { return record_->gone[index(whole(rank))].load(std::memory_order_acquire); }
  std::chrono::steady_clock::time_point now() const { return record_->clock(); }
  bool passed(const deadline& until) const { return until.passed(record_->clock); }

  /// A rank's number in the whole group.
  int whole(int rank) const { return whole_[index(rank)]; }
  place at(int rank) const { return {.rank = rank, .step = -1, .bucket = -1, .parameter = {}, .whole = other_number(rank)}; }
  std::string name(int rank) const { return name_of_rank(rank, other_number(rank)); }
  /// Of a rank of the whole group, which need not be a member of this part.
  std::string name_of_member(int whole_rank) const {
    for (std::size_t rank = 0; rank < whole_.size(); ++rank)
      if (whole_[rank] == whole_rank) return name(static_cast<int>(rank));
    return "rank " + std::to_string(whole_rank) + " of the whole group";
  }

  /// A wait that may become so long that its thread sleeps. From then on it's listed: a failure ends it at once, and lateness is traced
  /// to its source. The list costs a lock, where sleeping costs more.
  class long_wait {
   public:
    long_wait(const failure& f, int rank, int peer, flag& counter, std::uint32_t target)
        : record_(f.record_.get()), rank_(f.whole(rank)), peer_(f.whole(peer)), counter_(&counter), target_(target) {}
    ~long_wait() {
      if (!listed_) return;
      const std::lock_guard hold(record_->mutex);
      (previous_ != nullptr ? previous_->next_ : record_->sleepers) = next_;
      if (next_ != nullptr) next_->previous_ = previous_;
      if (!over()) record_->gave_up_on[index(rank_)] = peer_;  // for those whose deadlines pass before this rank has failed the group
    }
    long_wait(const long_wait&) = delete;
    long_wait& operator=(const long_wait&) = delete;

    void list() {
      if (listed_) return;
      const std::lock_guard hold(record_->mutex);
      next_ = std::exchange(record_->sleepers, this);
      if (next_ != nullptr) next_->previous_ = this;
      listed_ = true;
    }

   private:
    friend failure;
    bool over() const { return counter_->reached(target_); }

    record* record_;
    int rank_, peer_;  // in the whole group
    flag* counter_;
    std::uint32_t target_;
    bool listed_ = false;
    long_wait *previous_ = nullptr, *next_ = nullptr;
  };

  /// Whether all other ranks of the whole group that have not returned sleep at this moment, because a peer has not come. Where each has
  /// one thread only, nothing will change until this rank does something.
  bool others_wait(int rank) const {
    const std::lock_guard hold(record_->mutex);
    for (std::size_t other = 0; other < record_->gone.size(); ++other)
      if (static_cast<int>(other) != whole(rank) && !record_->gone[other] && record_->sleep_of(static_cast<int>(other)) == nullptr)
        return false;
    return true;
  }

  /// Who did not come, when `rank` waited for `peer` in vain: that one may itself wait for another, in this part of the group or elsewhere,
  /// and that one for a third. `in_turn`: the late one waits for `rank`.
  struct latecomer {
    std::string name;
    bool in_turn;
  };
  latecomer late(int rank, int peer) const {
    const std::lock_guard hold(record_->mutex);
    int late = whole(peer), next = record_->waits_for(late);
    for (std::size_t i = 0; i < record_->gone.size() && next >= 0 && next != whole(rank); ++i) {
      late = next;
      next = record_->waits_for(late);
    }
    return {name_of_member(late), next == whole(rank)};
  }

 private:
  struct record {
    record(int size, clock_source source) : clock(source), crowded(size > usable_cpus()), gone(index(size)), gave_up_on(index(size), -1) {}

    // All below are called with the mutex held.
    void set(int rank, std::exception_ptr why, bool final) {
      settled = final;
      cause = why ? std::move(why) : std::make_exception_ptr(transport_error("its thread was ended from within, as pthread_exit() does"));
      told = tell(cause);
      failed.store(rank, std::memory_order_seq_cst);
      changed.notify_all();
      wake_sleepers();
    }

    void wake_sleepers() const {
      for (long_wait* w = sleepers; w != nullptr; w = w->next_) w->counter_->wake();
    }

    const long_wait* sleep_of(int rank) const {
      const long_wait* w = sleepers;
      while (w != nullptr && (w->rank_ != rank || w->over())) w = w->next_;
      return w;
    }

    int waits_for(int rank) const {
      const long_wait* w = sleep_of(rank);
      return w != nullptr ? w->peer_ : gave_up_on[index(rank)];
    }

    clock_source clock;
    bool crowded;
    series<std::atomic<bool>> gone;
    std::atomic<int> failed{-1};
    std::mutex mutex;
    std::condition_variable changed;
    bool settled = false;
    std::exception_ptr cause;
    told_cause told;
    long_wait* sleepers = nullptr;
    series<int> gave_up_on;  // by rank: for whom its last failed wait was
  };

  static std::size_t index(int rank) { return static_cast<std::size_t>(rank); }
  int other_number(int rank) const { return whole(rank) == rank ? -1 : whole(rank); }
  std::shared_ptr<record> record_;
  series<int> whole_;  // by rank
};

}  // namespace gradsync::detail
