// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// Sends buckets on their way and brings them home: the communication stream of one rank.
///
/// `launch` lends the next bucket of the plan and never waits. Its collective is driven by a thread of the reducer's own
/// (`progress::thread`), or by the calling thread whenever it comes by (`at_marks`): `poll` then goes as far as the peers are ready, and
/// `finish` goes to the end. On an asynchronous stream to drive is to give the device its work, which the calling thread does; what is said
/// to be done has been given, and is done before anything that waits for the stream.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "gradsync/bucket/plan.hpp"
#include "gradsync/bucket/storage.hpp"
#include "gradsync/collective/collective.hpp"
#include "gradsync/collective/run.hpp"
#include "gradsync/comm/flag.hpp"
#include "gradsync/comm/transport.hpp"
#include "gradsync/core/error.hpp"
#include "gradsync/core/series.hpp"
#include "gradsync/sync/driver.hpp"
#include "gradsync/sync/options.hpp"
#include "gradsync/trace/recorder.hpp"

namespace gradsync {

template <transport Communicator>
class reducer {
 public:
  using channel_type = channel_of<Communicator>;
  using stream_type = typename channel_type::stream_type;

  reducer(const collective<Communicator>& sum, const bucket_plan& plan, series_view<parameter> parameters, bucket_storage& storage,
          progress how)
      : sum_(sum), channel_(sum.communicator().open(plan.buckets.size())), plan_(&plan), parameters_(parameters), storage_(&storage),
        cursors_(plan.buckets.size()), times_(plan.buckets.size()) {
    choose_programs();
    if (wants_driver(sum.communicator(), how)) driver_ = std::thread([this] { serve(); });
  }

  ~reducer() {
    const bool lent = launched_.value() != completed_.value();
    if (lent)
      sum_.communicator().fail(
          std::make_exception_ptr(transport_error("its synchronizer was destroyed before finish()", here(completed()))));
    if (driver_.joinable()) {
      stop_.store(true, std::memory_order_release);
      launched_.wake();
      driver_.join();
    }
    if (lent) channel_.leave();
  }

  /// Where gradients go through on their way to a bucket, in the order of its collectives.
  stream_type& stream() { return channel_.stream(); }
  channel_type& channel() { return channel_; }
  const bucket_plan& plan() const { return *plan_; }

  progress how() const { return driver_.joinable() ? progress::thread : progress::at_marks; }

  /// Whether this is the only rank.
  bool alone() const { return sum_.communicator().size() == 1; }
  /// A fused pass multiplies each rank's gradients by its weight on the way; elsewhere that is done before `launch`.
  bool scales(std::size_t bucket) const { return runs_weighted_pass(bucket) && !alone(); }

  /// Follows the plan, which has changed. All ranks together, when `finish` has returned. What was completed is still counted in buckets of
  /// the old plan.
  void replan() {
    const std::size_t buckets = plan_->buckets.size();
    total_weight_ = total_weight();  // the channel that knows it goes
    knows_weight_ = true;
    channel_ = sum_.communicator().open(buckets);
    cursors_.assign(buckets, {});
    times_.assign(buckets, {});
    choose_programs();
  }

  /// A new update. Nothing may be under way.
  void begin(std::int64_t step) {
    step_ = step;
    first_ = launched_.value();
    knows_weight_ = alone();
  }

  /// Sends the next bucket of the plan: all its gradients are placed.
  void launch(double scale, double weight) {
    const std::size_t b = launched();
    times_[b].restart();
    const contribution mine{.buffer = storage_->view(b), .scale = scale, .weight = weight, .call = 0, .part = b};
    if (!alone()) {
      cursors_[b] = {.place = channel_.post(*programs_[b], mine), .round = 0, .piece = 0};
      launched_.raise(launched_.value() + 1);
    } else {
      storage_->unpack(stream(), b, weight);
      done_alone(b);
    }
    total_weight_ = weight;
  }

  /// One rank alone, whose gradients are the mean already: the next bucket is done as it is.
  void skip(double weight) {
    const std::size_t b = launched();
    times_[b].restart();
    done_alone(b);
    total_weight_ = weight;
  }

  std::size_t launched() const { return launched_.value() - first_; }
  /// Buckets of this update whose mean is in place.
  std::size_t completed() const { return completed_.value() - first_; }

  /// Throws again what has ended this rank's part in the group, if something has.
  void rethrow() const {
    if (failed_.load(std::memory_order_acquire)) std::rethrow_exception(error_);
  }

  /// Goes as far as possible without waiting. Throws what a peer or the driving thread has thrown.
  void poll() {
    rethrow();
    if (!driver_.joinable() && completed() != launched()) guarded([&] { drive(deadline::poll); });
  }

  /// Waits until every bucket of the update is home.
  void finish() {
    const time_point called = now();
    const std::uint32_t last = first_ + static_cast<std::uint32_t>(times_.size());
    if (driver_.joinable()) {
      completed_.wait(last, [&] { return !failed_.load(std::memory_order_acquire); });
      rethrow();
      settle(times_, called);
    } else {
      if (completed() != launched()) guarded([&] { drive([&] { return sum_.communicator().limit(); }); });
      for (bucket_times& t : times_) t.exposed = t.busy;  // this thread did it all
    }
  }

  /// Σ weights of all ranks in the update that `finish` has ended. Of an asynchronous stream it waits until that is known.
  double total_weight() { return knows_weight_ ? total_weight_ : channel_.total_weight(cursors_.back().place); }

  const series<bucket_times>& times() const { return times_; }

  /// What ranks do together between updates. If it fails, this rank's part in the group has ended, as after a bucket's failure.
  template <class F>
  decltype(auto) together(F&& f) {
    rethrow();
    return guarded([&] { return place_of(sum_.communicator(), sum_.communicator().rank(), step_); }, f);
  }

  /// What strategies that need scratch have of it.
  std::size_t scratch_bytes() const { return channel_.scratch_bytes(); }

  /// The strategy of each bucket; empty if all have the only one.
  series<std::string> strategies() const {
    series<std::string> names;
    for (std::size_t b = 0; b < programs_.size() && sum_.programs().size() > 1; ++b) names.push_back(programs_[b]->name);
    return names;
  }

 private:
  bool runs_weighted_pass(std::size_t bucket) const {
    if constexpr (fused_channel<channel_type>) return programs_[bucket]->fused && channel_type::fused_is_weighted;
    else return false;
  }

  static time_point now() { return std::chrono::steady_clock::now(); }

  // What each bucket of the plan runs.
  void choose_programs() {
    programs_.clear();
    for (std::size_t b = 0; b < times_.size(); ++b) {
      programs_.push_back(&sum_.steps(plan_->buckets[b].bytes()));
      times_[b].strategy = programs_[b]->name;
    }
  }

  place here(std::size_t b) const {
    place p = place_of(sum_.communicator(), sum_.communicator().rank(), step_);
    if (b < plan_->buckets.size()) {
      p.bucket = static_cast<int>(b);
      p.parameter = parameters_[plan_->buckets[b].slots.front().parameter].name();
    }
    return p;
  }

  // An error names its place, and the peers are told before this rank unwinds.
  template <class Where, class F>
  decltype(auto) guarded(Where&& where, F&& f) {
    try {
      return locating(where, f);
    } catch (...) {
      error_ = std::current_exception();
      failed_.store(true, std::memory_order_release);
      completed_.wake();
      sum_.communicator().fail(error_);
      throw;
    }
  }

  template <class F>
  void guarded(F&& f) {
    guarded([&] { return here(driven_); }, f);
  }

  // Runs each launched bucket in order, and drains those that have run. Returns when there is nothing left, or, if `limit()` is a poll,
  // nothing ready.
  template <class F>
  void drive(F&& limit) {
    auto drained = [&](const deadline& until) {
      if (!timed(drained_.bucket, [&](cursor& at) { return channel_.drain(*programs_[drained_.bucket], at.place, until); })) return false;
      complete();
      return true;
    };
    for (;;) {
      while (drained_.count != ran_.count && drained(deadline::poll())) continue;
      if (ran_.count != launched_.value()) {
        bucket_times& t = times_[ran_.bucket];
        if (t.start == time_point{}) t.start = now();
        if (!timed(ran_.bucket, [&](cursor& at) { return run(*programs_[ran_.bucket], channel_, at, limit()); })) return;
        advance(ran_);
      } else if (drained_.count == ran_.count || !drained(limit())) {
        return;
      }
    }
  }

  template <class F>
  bool timed(std::size_t bucket, F&& f) {
    driven_ = bucket;
    const time_point from = now();
    const bool done = f(cursors_[bucket]);
    times_[bucket].busy += now() - from;
    return done;
  }

  void complete() {
    if (programs_[drained_.bucket]->fused && !runs_weighted_pass(drained_.bucket))
      storage_->unpack(stream(), drained_.bucket, channel_.total(cursors_[drained_.bucket].place));
    else storage_->unpack(stream(), drained_.bucket);
    times_[drained_.bucket].end = now();
    advance(drained_);
    completed_.raise(drained_.count);
  }

  void done_alone(std::size_t b) {
    times_[b].start = times_[b].end = now();
    launched_.raise(launched_.value() + 1);
    completed_.raise(launched_.value());
  }

  // The driving thread: sleeps until there is a bucket, drives, and leaves its error to the calling thread.
  void serve() {
    try {
      while (launched_.wait(ran_.count + 1, [&] { return !stop_.load(std::memory_order_acquire); }))
        guarded([&] { drive([&] { return sum_.communicator().limit(); }); });
    } catch (...) {  // `guarded` has kept it for the calling thread
    }
  }

  // A position in the endless sequence of buckets. Belongs to the driver, which never looks back at an update: the next one may have begun.
  struct position {
    std::uint32_t count = 0;
    std::size_t bucket = 0;
  };
  void advance(position& at) const {
    ++at.count;
    if (++at.bucket == plan_->buckets.size()) at.bucket = 0;
  }

  collective<Communicator> sum_;
  channel_type channel_;
  const bucket_plan* plan_;
  series_view<parameter> parameters_;
  bucket_storage* storage_;
  series<const program*> programs_;  // of sum_, by bucket
  series<cursor> cursors_;           // written before launched_ is raised, then the driver's
  series<bucket_times> times_;       // the driver's until completed_ is raised
  std::int64_t step_ = 0;
  position ran_, drained_;   // the driver's
  std::size_t driven_ = 0;   // the driver's: the bucket that an error would be about
  std::uint32_t first_ = 0;  // launched_ at the update's begin
  double total_weight_ = 0;  // of all ranks, if it is known by now; of this one, if it is alone
  bool knows_weight_ = false;
  flag launched_, completed_;
  std::atomic<bool> stop_{false}, failed_{false};
  std::exception_ptr error_;
  std::thread driver_;
};

}  // namespace gradsync
