// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// One process of an MPI job: who it is, and what it and its peers tell each other beside their data.
///
/// Nothing here is an MPI collective but the making and the end of it all, so nothing can hang in one. Ranks send each other notes, small
/// messages of a communicator of their own that every wait looks at: that a rank has failed, and why; that it has returned from its
/// function; whom it waits for. A rank that does not answer is late, stopped or dead, and is named.
///
/// After a failure a process takes in whatever its peers had still on the way to it, so that no send of theirs is left in memory that they
/// give up. Where that doesn't succeed in time, nothing is left but MPI_Abort, once the error has been printed.
#pragma once

#include <mpi.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gradsync/comm/blame.hpp"
#include "gradsync/comm/failure.hpp"
#include "gradsync/core/deadline.hpp"
#include "gradsync/core/error.hpp"

namespace gradsync {

struct mpi_group_options {
  std::chrono::nanoseconds deadline = std::chrono::minutes(10);  ///< how late a peer may be
  clock_source clock = std::chrono::steady_clock::now;           ///< what reads the time, for tests
};

namespace detail {

/// `transport_error` if an MPI function did not succeed.
inline void check_mpi(int status, const char* call) {
  if (status == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(status, text, &length);
  throw transport_error(std::string(call) + ": " + text);
}

/// A wait for other processes: at first it looks again at once, then after the others on its processor, then after a nap.
class patience {
 public:
  void operator()() {
    if (++looks_ < 20) return;
    if (looks_ < 2000) std::this_thread::yield();
    else std::this_thread::sleep_for(std::chrono::microseconds(50));
  }

 private:
  int looks_ = 0;
};

/// An exception of another process, as far as it could be told.
template <class Base>
struct told_error : Base {
  explicit told_error(const char* text) : Base(text), text_(text) {}
  const char* what() const noexcept override { return text_.c_str(); }
  std::string text_;
};

class mpi_process {
 public:
  mpi_process(MPI_Comm group, const mpi_group_options& options) : options_(options), group_(group) {
    initialise();
    check_mpi(MPI_Comm_rank(group_, &rank_), "MPI_Comm_rank");
    check_mpi(MPI_Comm_size(group_, &size_), "MPI_Comm_size");
    for (MPI_Comm* own : {&notes_, &data_[0], &data_[1]}) {
      check_mpi(MPI_Comm_dup(group_, own), "MPI_Comm_dup");
      check_mpi(MPI_Comm_set_errhandler(*own, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    }
    int found = 0, *bound = nullptr;
    check_mpi(MPI_Comm_get_attr(data_[0], MPI_TAG_UB, &bound, &found), "MPI_Comm_get_attr");
    highest_tag_ = found != 0 ? *bound : 32767;
    sent_ = std::vector<std::atomic<std::uint64_t>>(ranks());
    received_ = std::vector<std::atomic<std::uint64_t>>(ranks());
    expected_ = std::vector<std::atomic<std::uint64_t>>(ranks());
    answers_ = std::vector<std::atomic<int>>(ranks());
    outcome_ = std::make_shared<failure>(size_, options_.clock);
    await_note();
  }

  ~mpi_process() {
    if (std::uncaught_exceptions() > exceptions_) {
      const auto cause =
          std::make_exception_ptr(transport_error("an exception has left the function that made its mpi_group", outcome_->at(rank_)));
      fail(cause);
      end_job(cause, nobody);
    }
    if (incoming_ != MPI_REQUEST_NULL && MPI_Cancel(&incoming_) == MPI_SUCCESS) MPI_Wait(&incoming_, MPI_STATUS_IGNORE);
    for (MPI_Comm* own : {&notes_, &data_[0], &data_[1]}) MPI_Comm_free(own);
    if (finalises_) finalise();
  }
  mpi_process(const mpi_process&) = delete;
  mpi_process& operator=(const mpi_process&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  /// What MPI promises about threads: MPI_THREAD_MULTIPLE, or less.
  int threads() const { return threads_; }
  int highest_tag() const { return highest_tag_; }
  const mpi_group_options& options() const { return options_; }
  const std::shared_ptr<failure>& outcome() const { return outcome_; }
  /// Of this run's messages.
  MPI_Comm data() const { return data_[run_ % 2]; }

  // ---- a run: from the call of the rank's function to its return on every rank

  void begin_run() {
    const std::lock_guard hold(mutex_);
    ++run_;
    for (std::size_t r = 0; r < ranks(); ++r) sent_[r] = received_[r] = expected_[r] = 0;
    outcome_ = std::make_shared<failure>(size_, options_.clock);
    abandoned_ = {};
    announced_ = concluded_ = false;
    for (const auto& [source, text] : std::exchange(early_, {})) take(source, text);
  }

  /// Returns when every rank has come to the end of its function. Throws what this rank's own ended with, if it is not null, or what it is
  /// told of another's failure.
  void end_run(const std::exception_ptr& mine) {
    for (int peer = 0; peer < size_; ++peer)
      if (peer != rank_) send(peer, {.what = note::gone, .number = next_, .messages = sent_[index(peer)]});
    const deadline until = deadline::after(options_.deadline, options_.clock);
    auto failed_at = std::chrono::steady_clock::time_point::max();
    for (patience wait;; wait()) {
      poll();
      const int missing = first_missing();
      if (missing < 0 && sent_all()) break;
      if (outcome_->failed()) {
        failed_at = std::min(failed_at, std::chrono::steady_clock::now());
        const auto longest_wait = poisoned_ ? std::chrono::milliseconds(500) : longest(std::chrono::seconds(3));
        if (std::chrono::steady_clock::now() - failed_at > longest_wait) end_job(mine, missing);
      } else if (until.passed(options_.clock)) {
        fail(std::make_exception_ptr(timeout_error(
            outcome_->name(missing) + " did not return from its function before the deadline, counted from this rank's return",
            outcome_->at(rank_))));
      }
    }
    if (mine) std::rethrow_exception(mine);
    if (outcome_->failed()) outcome_->report(rank_);
  }

  /// A number that marks no messages yet. All ranks take it together.
  int next() const { return next_; }
  void take_number(int number) { next_ = std::max(next_.load(), number + 1); }

  // ---- failure

  void fail(std::exception_ptr cause) {
    const std::lock_guard hold(mutex_);
    if (outcome_->failed()) return;
    outcome_->fail(rank_, cause);
    announce(note::failed, cause);
  }
  void abandon(std::exception_ptr meanwhile) {
    const std::lock_guard hold(mutex_);
    if (outcome_->failed()) return;
    outcome_->abandon(rank_, meanwhile);
    announce(note::abandoned, meanwhile);
  }
  /// From the outermost function: what this rank has really failed of.
  void conclude(std::exception_ptr cause) {
    const std::lock_guard hold(mutex_);
    const bool first = !outcome_->failed(), mine = announced_ && !concluded_;
    outcome_->conclude(rank_, cause);
    if (first || mine) announce(note::failed, cause);
  }

  /// Looks whether there are notes. Any thread may; one at a time does.
  void poll() {
    const std::unique_lock hold(mutex_, std::try_to_lock);
    if (!hold || poisoned_) return;
    for (int come = 1; come != 0;) {
      MPI_Status status;
      check_mpi(MPI_Test(&incoming_, &come, &status), "MPI_Test");
      if (come == 0) break;
      const note copy = incoming_note_;
      await_note();
      take(status.MPI_SOURCE, copy);
    }
    {
      const std::lock_guard send_hold(outgoing_mutex_);
      reap(outgoing_);
    }
    if (abandoned_.rank >= 0 && std::chrono::steady_clock::now() - abandoned_.since > std::chrono::seconds(1)) settle();
    if (outcome_->failed()) drain();
  }

  /// Whether a rank has returned, and all that it had sent has been received. `rank` counts in the whole group, as all below.
  bool gone(int rank) const { return outcome_->gone(rank) && received_[index(rank)] >= expected_[index(rank)]; }
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
      if (other != rank_) send(other, {.what = note::question});
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

  // ---- messages that are given up

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
  struct note {
    enum kind : std::int32_t { failed, abandoned, gone, question, answer } what;
    std::int32_t run = 0, number = 0, mismatch = 0;  // number: of gone the sender's next(), of an answer whom it waits for
    std::uint64_t messages = 0;                      // of gone: how many it has sent to this rank
    std::array<char, 968> text{};                    // so short that no MPI asks before it sends it
  };
  struct outgoing {
    note text;
    MPI_Request request;
  };
  struct drained {
    std::vector<std::byte> nowhere;
    MPI_Request request;
  };
  static constexpr int nobody = -1, unasked = -2;  // answers

  static std::size_t index(int rank) { return static_cast<std::size_t>(rank); }
  std::size_t ranks() const { return index(size_); }

  void initialise() {
    int already = 0, over = 0;
    MPI_Initialized(&already);
    MPI_Finalized(&over);
    if (over != 0) throw usage_error("MPI has been finalized, and cannot be initialised again; keep one mpi_group for the whole program");
    if (already != 0) check_mpi(MPI_Query_thread(&threads_), "MPI_Query_thread");
    else check_mpi(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &threads_), "MPI_Init_thread");
    finalises_ = already == 0;
  }

  // Not for ever: a process that does not come to its end is a reason to end all.
  void finalise() {
    std::mutex mutex;
    std::condition_variable ended;
    bool over = false;
    std::thread watch([&] {
      std::unique_lock hold(mutex);
      if (ended.wait_for(hold, longest(std::chrono::minutes(10)), [&] { return over; })) return;
      std::fprintf(stderr, "gradsync[rank %d]: MPI_Finalize has not returned before the deadline; ending this process\n", rank_);
      std::abort();
    });
    MPI_Finalize();
    {
      const std::lock_guard hold(mutex);
      over = true;
    }
    ended.notify_one();
    watch.join();
  }

  void await_note() { check_mpi(MPI_Irecv(&incoming_note_, sizeof(note), MPI_BYTE, MPI_ANY_SOURCE, 0, notes_, &incoming_), "MPI_Irecv"); }

  void send(int peer, note text) {
    if (poisoned_) return;
    const std::lock_guard hold(outgoing_mutex_);
    text.run = run_;
    outgoing_.push_back({text, MPI_REQUEST_NULL});
    outgoing& one = outgoing_.back();
    check_mpi(MPI_Isend(&one.text, sizeof(note), MPI_BYTE, peer, 0, notes_, &one.request), "MPI_Isend");
  }
  void announce(note::kind what, const std::exception_ptr& cause) {
    const told_cause told = cause ? tell(cause) : told_cause{"its thread was ended from within"};
    note text{.what = what, .mismatch = told.mismatch ? 1 : 0};
    told.text.copy(text.text.data(), text.text.size() - 1);
    for (int peer = 0; peer < size_; ++peer)
      if (peer != rank_) send(peer, text);
    announced_ = true;
    concluded_ = concluded_ || what == note::failed;
  }
  template <class List>
  static void reap(List& all) {
    for (auto one = all.begin(); one != all.end();) {
      int done = 0;
      check_mpi(MPI_Test(&one->request, &done, MPI_STATUS_IGNORE), "MPI_Test");
      one = done != 0 ? all.erase(one) : std::next(one);
    }
  }
  bool sent_all() {
    const std::lock_guard hold(outgoing_mutex_);
    return outgoing_.empty();
  }

  // Takes what is still on the way to this rank, of a run that has failed.
  void drain() {
    for (int found = 1; found != 0;) {
      MPI_Message message;
      MPI_Status status;
      int bytes = 0;
      check_mpi(MPI_Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, data(), &found, &message, &status), "MPI_Improbe");
      if (found == 0) break;
      check_mpi(MPI_Get_count(&status, MPI_BYTE, &bytes), "MPI_Get_count");
      drained_.push_back({std::vector<std::byte>(static_cast<std::size_t>(bytes)), MPI_REQUEST_NULL});
      check_mpi(MPI_Imrecv(drained_.back().nowhere.data(), bytes, MPI_BYTE, &message, &drained_.back().request), "MPI_Imrecv");
    }
    reap(drained_);
  }

  // Called with the mutex held, as `settle` is.
  void take(int source, const note& text) {
    if (text.run > run_) early_.push_back({source, text});  // that rank is in the next run already
    if (text.run != run_) return;
    switch (text.what) {
      case note::failed: fail_of(source, text.text.data(), text.mismatch != 0); break;
      case note::abandoned:
        if (abandoned_.rank < 0) abandoned_ = {source, text.text.data(), text.mismatch != 0, std::chrono::steady_clock::now()};
        break;
      case note::gone:
        if (abandoned_.rank == source) settle();
        take_number(text.number - 1);
        expected_[index(source)] = text.messages;
        outcome_->leave(source);
        break;
      case note::question: send(source, {.what = note::answer, .number = waits_for_}); break;
      case note::answer: answers_[index(source)] = text.number; break;
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

  // What the caller would have got is printed, since it won't get it.
  [[noreturn]] void end_job(const std::exception_ptr& mine, int missing) {
    told_cause told;
    try {
      if (mine) std::rethrow_exception(mine);
      outcome_->report(rank_);
    } catch (...) {
      told = tell(std::current_exception());
    }
    const std::string who = missing >= 0 ? outcome_->name(missing) + " does not come to its end" : "there is nobody to tell it";
    std::fprintf(stderr, "%s\ngradsync[rank %d]: %s; ending the job\n", told.text.c_str(), rank_, who.c_str());
    MPI_Abort(group_, 1);
    std::abort();
  }

  mpi_group_options options_;
  MPI_Comm group_, notes_ = MPI_COMM_NULL, data_[2] = {MPI_COMM_NULL, MPI_COMM_NULL};
  int rank_ = 0, size_ = 1, threads_ = MPI_THREAD_SINGLE, highest_tag_ = 0, run_ = 0;
  std::atomic<int> next_{0};
  bool finalises_ = false;
  int exceptions_ = std::uncaught_exceptions();
  std::mutex mutex_, outgoing_mutex_;
  note incoming_note_{};
  MPI_Request incoming_ = MPI_REQUEST_NULL;
  std::list<outgoing> outgoing_;
  std::list<drained> drained_;
  std::vector<std::pair<int, note>> early_;
  std::shared_ptr<failure> outcome_;
  bool announced_ = false, concluded_ = false;
  struct {
    int rank = -1;
    std::string text{};
    bool mismatch = false;
    std::chrono::steady_clock::time_point since{};
  } abandoned_;  // a rank that unwinds, from an exception that only its outermost function will see
  std::atomic<bool> poisoned_{false};
  std::atomic<int> waits_for_{nobody};
  std::vector<std::atomic<int>> answers_;                               // by rank, of the last questions
  std::vector<std::atomic<std::uint64_t>> sent_, received_, expected_;  // data messages of this run, by peer
};

}  // namespace detail
}  // namespace gradsync
