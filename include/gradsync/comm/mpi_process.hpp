// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// One process of an MPI job: who it is, and what it and its peers tell each other beside their data.
///
/// Ranks send each other notes, small messages of a communicator of their own that every wait looks at: that a rank has failed, and why;
/// that it has returned from its function; whom it waits for. A rank that does not answer is late, stopped or dead, and is named.
///
/// After a failure a process takes in whatever its peers had still on the way to it, so that no send of theirs is left in memory that they
/// give up. Where that doesn't succeed in time, nothing is left but MPI_Abort, once the error has been printed.
#pragma once

#include <mpi.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "gradsync/comm/blame.hpp"
#include "gradsync/comm/failure.hpp"
#include "gradsync/comm/launch.hpp"
#include "gradsync/comm/mpi_notes.hpp"
#include "gradsync/comm/mpi_session.hpp"
#include "gradsync/core/deadline.hpp"
#include "gradsync/core/error.hpp"

namespace gradsync {

struct mpi_group_options {
  std::chrono::nanoseconds deadline = std::chrono::minutes(10);  ///< how late a peer may be
  clock_source clock = std::chrono::steady_clock::now;           ///< what reads the time, for tests
  std::FILE* errors =
      stderr;  ///< where `run` says what it will throw, before a launcher sees a rank end and kills the others; null: nowhere
};

namespace detail {

class mpi_process {
 public:
  mpi_process(MPI_Comm group, const mpi_group_options& options)
      : options_(options), session_(group, std::min<std::chrono::nanoseconds>(options.deadline, std::chrono::minutes(10))),
        rank_(session_.rank()), size_(session_.size()) {
    if (group == MPI_COMM_WORLD) launch_in_mpi(find_launch(), rank_, size_);  // the launcher may be that of another MPI
    sent_ = std::vector<std::atomic<std::uint64_t>>(ranks());
    received_ = std::vector<std::atomic<std::uint64_t>>(ranks());
    expected_ = std::vector<std::atomic<std::uint64_t>>(ranks());
    taken_ = std::vector<std::atomic<std::uint64_t>>(ranks());
    answers_ = std::vector<std::atomic<int>>(ranks());
    outcome_ = std::make_shared<failure>(size_, options_.clock);
  }

  /// Where an exception ends this process's part, from elsewhere than a run, it is as if a run had failed.
  ~mpi_process() {
    if (std::uncaught_exceptions() <= exceptions_ || threw_) return;
    begin_run();
    const auto cause = std::make_exception_ptr(transport_error("an exception ended its part in the job", outcome_->at(rank_)));
    conclude(cause);
    try {
      end_run(cause);
    } catch (...) {  // the one that is under way goes on
    }
  }
  mpi_process(const mpi_process&) = delete;
  mpi_process& operator=(const mpi_process&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  const mpi_session& session() const { return session_; }
  const mpi_group_options& options() const { return options_; }
  const std::shared_ptr<failure>& outcome() const { return outcome_; }
  /// Of this run's messages.
  MPI_Comm data() const { return session_.data(run_); }

  // ---- a run: from the call of the rank's function to its return on every rank

  void begin_run() {
    const std::lock_guard hold(mutex_);
    ++run_;
    for (std::size_t r = 0; r < ranks(); ++r) sent_[r] = received_[r] = expected_[r] = taken_[r] = 0;
    outcome_ = std::make_shared<failure>(size_, options_.clock);
    abandoned_ = {};
    announced_ = concluded_ = threw_ = false;
    own_cause_ = nullptr;
    for (const auto& [source, text] : std::exchange(early_, {})) take(source, text);
  }

  /// Returns when every rank has come to the end of its function. Throws what this rank's own ended with, if it is not null, or what it is
  /// told of another's failure.
  void end_run(std::exception_ptr mine) {
    for (int peer = 0; peer < size_; ++peer)
      if (peer != rank_) send(peer, {.what = mpi_note::gone, .number = next_, .sent = sent_[index(peer)], .taken = received_[index(peer)]});
    const deadline until = deadline::after(options_.deadline, options_.clock);
    std::chrono::steady_clock::time_point last{};  // until when others are given time, once the run has failed
    for (patience wait;; wait()) {
      poll();
      const int missing = first_missing();
      const bool ended = missing < 0 && !poisoned_ && notes_.sent_all(), failed = outcome_->failed();
      if (failed && last == std::chrono::steady_clock::time_point{}) {
        if (!mine) mine = told();
        say(named(mine));
        last = std::chrono::steady_clock::now() + (poisoned_ ? std::chrono::milliseconds(500) : longest(std::chrono::seconds(3)));
      }
      if (ended) break;
      if (failed && std::chrono::steady_clock::now() > last) end_job(missing);
      if (!failed && until.passed(options_.clock))
        fail(std::make_exception_ptr(timeout_error(
            outcome_->name(missing) + " did not return from its function before the deadline, counted from this rank's return",
            outcome_->at(rank_))));
    }
    threw_ = mine != nullptr;
    if (mine) std::rethrow_exception(mine);
  }

  /// A number that marks no messages yet. All ranks take it together.
  int next() const { return next_; }
  void take_number(int number) { next_ = std::max(next_.load(), number + 1); }

  void fail(std::exception_ptr cause) {
    const std::lock_guard hold(mutex_);
    if (outcome_->failed()) return;
    outcome_->fail(rank_, cause);
    announce(mpi_note::failed, cause);
  }
  void abandon(std::exception_ptr meanwhile) {
    const std::lock_guard hold(mutex_);
    if (outcome_->failed()) return;
    outcome_->abandon(rank_, meanwhile);
    announce(mpi_note::abandoned, meanwhile);
  }
  /// From the outermost function: what this rank has really failed of.
  void conclude(const std::exception_ptr& cause) {
    const std::lock_guard hold(mutex_);
    const bool first = !outcome_->failed(), mine = announced_ && !concluded_;
    outcome_->conclude(rank_, cause);
    if (first || mine) announce(mpi_note::failed, cause);
  }

  /// Looks whether there are notes. Any thread may; one at a time does.
  void poll() {
    const std::unique_lock hold(mutex_, std::try_to_lock);
    if (!hold || poisoned_) return;
    notes_.look([this](int source, const mpi_note& text) { take(source, text); });
    notes_.sent_all();
    if (abandoned_.rank >= 0 && std::chrono::steady_clock::now() - abandoned_.since > std::chrono::seconds(1)) settle();
    if (outcome_->failed()) notes_.drain(data());
  }

  /// Whether a rank has returned, and no message of it will come. `rank` counts in the whole group, as all below.
  bool sends_no_more(int rank) const { return outcome_->gone(rank) && received_[index(rank)] >= expected_[index(rank)]; }
  /// Whether it has returned, and left messages of this rank behind. Those that it has taken may not be known to be sent yet.
  bool takes_no_more(int rank) const { return outcome_->gone(rank) && sent_[index(rank)] > taken_[index(rank)]; }
  void count_sent(int rank) { ++sent_[index(rank)]; }
  void count_received(int rank) { ++received_[index(rank)]; }
  void waits_for(int rank) { waits_for_ = rank; }

  /// Who is to blame when this rank has waited for `peer` in vain: that one may itself wait for another, and that one for a third.
  struct culprit {
    int rank;
    bool in_turn;  ///< it waits for this rank
  };
  culprit blame(int peer) {
    for (auto& answer : answers_) answer = unasked;
    for (int other = 0; other < size_; ++other)
      if (other != rank_) send(other, {.what = mpi_note::question});
    const auto begin = std::chrono::steady_clock::now();
    for (patience wait;; wait()) {
      poll();
      int late = peer, answer = answers_[index(peer)];
      for (int i = 0; i < size_ && answer >= 0 && answer != rank_; ++i) {
        late = answer;
        answer = answers_[index(late)];
      }
      const bool silent = answer == unasked && std::chrono::steady_clock::now() - begin < longest(std::chrono::seconds(2));
      if (!silent || outcome_->failed()) return {late, answer == rank_};
    }
  }

  /// Messages are under way in memory that is given up all the same: MPI must not be called again, but to end the job.
  void poison() {
    fail(std::make_exception_ptr(transport_error("it had to give up memory that was lent to a message", outcome_->at(rank_))));
    poisoned_ = true;
  }
  bool poisoned() const { return poisoned_; }
  /// How long others are given to end a failed run: no longer than the deadline.
  std::chrono::nanoseconds longest(std::chrono::nanoseconds most) const {
    return std::clamp<std::chrono::nanoseconds>(options_.deadline, std::chrono::milliseconds(200), most);
  }

 private:
  static constexpr int nobody = -1, unasked = -2;  // answers

  static std::size_t index(int rank) { return static_cast<std::size_t>(rank); }
  std::size_t ranks() const { return index(size_); }

  void send(int peer, mpi_note text) {
    if (poisoned_) return;
    text.run = run_;
    notes_.send(peer, text);
  }
  void announce(mpi_note::kind what, const std::exception_ptr& cause) {
    own_cause_ = cause;
    const told_cause told = tell(cause);
    mpi_note text{.what = what, .mismatch = told.mismatch ? 1 : 0};
    told.text.copy(text.text.data(), text.text.size() - 1);
    for (int peer = 0; peer < size_; ++peer)
      if (peer != rank_) send(peer, text);
    announced_ = true;
    concluded_ = concluded_ || what == mpi_note::failed;
  }
  // Called with the mutex held, as `settle` is.
  void take(int source, const mpi_note& text) {
    if (text.run > run_) early_.push_back({source, text});  // that rank is in the next run already
    if (text.run != run_) return;
    switch (text.what) {
      case mpi_note::failed: fail_of(source, text.text.data(), text.mismatch != 0); break;
      case mpi_note::abandoned:
        if (abandoned_.rank < 0) abandoned_ = {source, text.text.data(), text.mismatch != 0, std::chrono::steady_clock::now()};
        break;
      case mpi_note::gone:
        if (abandoned_.rank == source) settle();
        take_number(text.number - 1);
        expected_[index(source)] = text.sent;
        taken_[index(source)] = text.taken;
        outcome_->leave(source);
        break;
      case mpi_note::question: send(source, {.what = mpi_note::answer, .number = waits_for_}); break;
      case mpi_note::answer: answers_[index(source)] = text.number; break;
    }
  }
  void fail_of(int source, const char* text, bool mismatch) {
    outcome_->fail(source, mismatch ? std::make_exception_ptr(told_error<mismatch_error>(text))
                                    : std::make_exception_ptr(told_error<transport_error>(text)));
    abandoned_ = {};
  }
  void settle() { fail_of(abandoned_.rank, std::string(abandoned_.text).c_str(), abandoned_.mismatch); }

  int first_missing() const {
    for (int peer = 0; peer < size_; ++peer)
      if (peer != rank_ && !outcome_->gone(peer)) return peer;
    return -1;
  }

  // What ended this rank's part, when its own function threw nothing.
  std::exception_ptr told() const {
    if (own_cause_) return own_cause_;
    try {
      outcome_->report(rank_);
    } catch (...) {
      return std::current_exception();
    }
  }
  // In words that say whose it is.
  std::string named(const std::exception_ptr& cause) const {
    const std::string text = tell(cause).text;
    return text.starts_with("gradsync[") ? text : "gradsync[" + outcome_->name(rank_) + "]: ended by " + text;
  }

  void say(const std::string& what) const {
    if (options_.errors != nullptr) std::fprintf(options_.errors, "%s\n", what.c_str());
  }
  [[noreturn]] void end_job(int missing) {
    const std::string who = missing >= 0 ? outcome_->name(missing) + " does not come to its end" : "its messages do not come to their end";
    say("gradsync[" + outcome_->name(rank_) + "]: " + who + "; ending the job");
    session_.abort();
  }

  mpi_group_options options_;
  mpi_session session_;
  mpi_notes notes_{session_};
  int rank_, size_, run_ = 0;
  std::atomic<int> next_{0};
  int exceptions_ = std::uncaught_exceptions();
  std::mutex mutex_;
  std::vector<std::pair<int, mpi_note>> early_;
  std::shared_ptr<failure> outcome_;
  std::exception_ptr own_cause_;  // what this rank has told the others
  bool announced_ = false, concluded_ = false, threw_ = false;
  struct {
    int rank = -1;
    std::string text{};
    bool mismatch = false;
    std::chrono::steady_clock::time_point since{};
  } abandoned_;  // a rank that unwinds, from an exception that only its outermost function will see
  std::atomic<bool> poisoned_{false};
  std::atomic<int> waits_for_{nobody};
  std::vector<std::atomic<int>> answers_;                                       // by rank, of the last questions
  std::vector<std::atomic<std::uint64_t>> sent_, received_, expected_, taken_;  // data messages of this run, by peer
};

}  // namespace detail
}  // namespace gradsync
