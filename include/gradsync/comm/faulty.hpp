// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// A transport with a fault in it: one rank is late, stops, falls silent or dies, at a collective and round of your choice. For drills of
/// what your training program does then.
///
///     gradsync::faulty comm{own, {.what = gradsync::fault::freeze, .rank = 1, .collective = 3, .round = 0}};   // own: from thread_group
///     gradsync::synchronizer sync{net, comm};   // rank 1 stops in its fourth collective; the others end at their deadline
///
///     gradsync::faulty comm{own, gradsync::random_fault(seed, {.ranks = comm.size(), .collectives = 40})};     // for a thousand drills
///
/// All ranks give the same plan, and only `rank` suffers. Everything else goes straight through to the communicator within, its fused
/// all-reduce included. Frozen and silent ranks come back when the group has failed, with the error that every rank gets: a drill ends.
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "gradsync/comm/program.hpp"
#include "gradsync/comm/transport.hpp"
#include "gradsync/core/deadline.hpp"
#include "gradsync/core/error.hpp"
#include "gradsync/core/series.hpp"

namespace gradsync {

enum class fault : unsigned char {
  none,
  delay,   ///< the rank is late by `fault_plan::delay`, on the group's clock
  freeze,  ///< it stops until the group has failed, or until `release()`
  drop,    ///< from here on nothing of it arrives: it neither takes part nor says so, and waits for the group to fail
  kill,    ///< it ends with `rank_killed`: let it out of the rank's function, or catch it there and return
};

constexpr const char* name_of(fault what) {
  constexpr const char* names[] = {"none", "delay", "freeze", "drop", "kill"};
  return names[static_cast<int>(what)];
}

struct fault_plan {
  static constexpr int posting = -1;

  fault what = fault::none;
  int rank = -1;                 ///< whose; -1: of each rank that is given this plan
  std::uint64_t collective = 0;  ///< of those that the rank begins, from 0 on; its own all_reduce, broadcast and barrier count too
  int round = 0;                 ///< just before this one. `posting`: before the rank's buffer is lent; the number of rounds (1 of a
                                 ///< fused pass): before it waits for peers that still use the buffer. Own values: round 0 only
  std::chrono::nanoseconds delay{1'000'000};
};

/// What `fault::kill` throws.
struct rank_killed : error {
  using error::error;
};

/// From where `random_fault` chooses.
struct fault_range {
  int ranks = 1;
  std::uint64_t collectives = 1;
  int rounds = 1;
  std::chrono::nanoseconds longest_delay{1'000'000};
};

/// The same fault for the same seed, everywhere.
constexpr fault_plan random_fault(std::uint64_t seed, const fault_range& range) {
  const auto below = [&seed](std::uint64_t end) {  // splitmix64 (Steele, Lea, Flood 2014)
    std::uint64_t z = seed += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return (z ^ (z >> 31)) % end;
  };
  fault_plan plan;
  plan.what = static_cast<fault>(1 + below(4));
  plan.rank = static_cast<int>(below(static_cast<std::uint64_t>(range.ranks)));
  plan.collective = below(range.collectives);
  plan.round = fault_plan::posting + static_cast<int>(below(static_cast<std::uint64_t>(range.rounds) + 2));
  plan.delay = std::chrono::nanoseconds(1 + below(static_cast<std::uint64_t>(range.longest_delay.count())));
  return plan;
}

/// A transport that tells whether its group has failed, of what, and what time it is there.
template <class T>
concept watched_transport = transport<T> && requires(const T& t) {
  { t.failed() } -> std::same_as<bool>;
  { t.now() } -> std::same_as<std::chrono::steady_clock::time_point>;
  t.check();  // throws if the group has failed
};

namespace detail {

template <watched_transport Communicator>
struct fault_site {
  Communicator* inner;
  fault_plan plan;
  std::uint64_t begun = 0;  // collectives, by the rank's thread
  std::atomic<bool> struck{false}, released{false}, held{false};

  /// False: the rank is silent, and this was a poll.
  bool pass(std::uint64_t collective, int round, const deadline& until) {
    if (plan.what == fault::none || (plan.rank >= 0 && plan.rank != inner->rank())) return true;
    const bool here = collective == plan.collective && round == plan.round;
    const bool later = collective > plan.collective || (collective == plan.collective && round > plan.round);
    if (plan.what == fault::drop ? !here && !later : !here || struck.load()) return true;
    struck.store(true);
    const auto begin = inner->now();
    switch (plan.what) {
      case fault::delay: stay([&] { return inner->now() - begin < plan.delay; }); break;
      case fault::freeze: stay([&] { return !released.load(); }); break;
      case fault::drop:
        if (until.polling()) return false;
        stay([] { return true; });
        break;
      default:
        throw rank_killed("killed in collective " + std::to_string(collective) + ", round " + std::to_string(round),
                          place_of(*inner, inner->rank()));
    }
    return true;
  }

  template <class F>
  void stay(F&& long_enough) {
    held.store(true);
    while (long_enough() && !inner->failed()) std::this_thread::sleep_for(std::chrono::microseconds(50));
    held.store(false);
    inner->check();
  }
};

}  // namespace detail

/// What `faulty` opens.
template <channel Channel, watched_transport Communicator>
class faulty_channel {
 public:
  using stream_type = typename Channel::stream_type;
  static constexpr bool fused_is_weighted = [] {
    if constexpr (fused_channel<Channel>) return Channel::fused_is_weighted;
    else return false;
  }();

  faulty_channel(Channel inner, std::shared_ptr<detail::fault_site<Communicator>> site, std::size_t slots)
      : inner_(std::move(inner)), site_(std::move(site)), numbers_(std::bit_ceil(std::max<std::size_t>(slots, 1))) {}

  ticket post(const program& p, const contribution& mine) {
    const std::uint32_t sequence = posted_++;
    number(sequence) = site_->begun++;
    // A silent rank's posting does not arrive, and none after it will: that this channel's counters stand still is not noticed.
    if (!pass({.sequence = sequence}, fault_plan::posting, deadline::poll())) return {.sequence = sequence};
    return inner_.post(p, mine);
  }
  bool exchange(const program& p, const ticket& t, int round, std::uint32_t piece, const deadline& until) {
    return pass(t, round, until) && inner_.exchange(p, t, round, piece, until);
  }
  bool reduce(const ticket& t, const deadline& until) requires fused_channel<Channel> {
    return pass(t, 0, until) && inner_.reduce(t, until);
  }
  bool drain(const program& p, const ticket& t, const deadline& until) {
    return pass(t, p.fused ? 1 : p.rounds(), until) && inner_.drain(p, t, until);
  }
  double total_weight(const ticket& t) { return inner_.total_weight(t); }
  auto total(const ticket& t) { return inner_.total(t); }
  stream_type& stream() { return inner_.stream(); }
  void leave() { inner_.leave(); }
  std::size_t scratch_bytes() const { return inner_.scratch_bytes(); }

 private:
  std::uint64_t& number(std::uint32_t sequence) { return numbers_[sequence % numbers_.size()]; }
  bool pass(const ticket& t, int round, const deadline& until) { return site_->pass(number(t.sequence), round, until); }

  Channel inner_;
  std::shared_ptr<detail::fault_site<Communicator>> site_;
  series<std::uint64_t> numbers_;  // of the collectives under way, by sequence
  std::uint32_t posted_ = 0;
};

template <watched_transport Communicator>
class faulty {
 public:
  static constexpr bool peer_addressable = Communicator::peer_addressable;
  static constexpr memory_space space = Communicator::space;

  /// `inner` outlives it. Split first, then add the fault.
  explicit faulty(Communicator& inner, const fault_plan& plan = {}) : site_(std::make_shared<site>()) {
    site_->inner = &inner;
    site_->plan = plan;
  }

  /// Another fault, whose collectives are counted from here. Nothing may be under way.
  void plan(const fault_plan& next) {
    site_->plan = next;
    site_->begun = 0;
    site_->struck = site_->released = false;
  }
  /// Whether this rank has come to the fault. From any thread.
  bool struck() const { return site_->struck.load(); }
  /// Whether a thread of this rank is late, frozen or silent now, and does nothing else. From any thread.
  bool held() const { return site_->held.load(); }
  /// A frozen rank goes on. From any thread.
  void release() { site_->released.store(true); }

  int rank() const { return inner().rank(); }
  int size() const { return inner().size(); }
  place place_of(int rank) const { return gradsync::place_of(inner(), rank); }
  deadline limit() const { return inner().limit(); }
  std::chrono::steady_clock::time_point now() const { return inner().now(); }
  bool failed() const { return inner().failed(); }
  void check() const { inner().check(); }
  bool allows_driver_thread() const requires requires(const Communicator& c) { c.allows_driver_thread(); } {
    return inner().allows_driver_thread();
  }

  auto open(std::size_t slots) { return faulty_channel<decltype(inner().open(slots)), Communicator>(inner().open(slots), site_, slots); }
  aligned_bytes allocate(std::size_t bytes) { return inner().allocate(bytes); }
  auto compute_stream() const { return inner().compute_stream(); }
  void fail(std::exception_ptr cause) { inner().fail(std::move(cause)); }
  void abandon(std::exception_ptr meanwhile) { inner().abandon(std::move(meanwhile)); }

  template <class T>
  auto all_reduce(T values, reduce_op op = reduce_op::sum) {
    begin_call();
    return inner().all_reduce(values, op);
  }
  template <class T>
  auto broadcast(T values, int root = 0) {
    begin_call();
    return inner().broadcast(values, root);
  }
  void barrier() {
    begin_call();
    inner().barrier();
  }

 private:
  using site = detail::fault_site<Communicator>;

  Communicator& inner() const { return *site_->inner; }
  void begin_call() { site_->pass(site_->begun++, 0, limit()); }

  std::shared_ptr<site> site_;
};

}  // namespace gradsync
