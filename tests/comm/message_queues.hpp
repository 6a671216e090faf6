// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// Ranks that pass messages within one process: threads, and a queue for each pair of them. As unkind as the concept `endpoint` allows:
/// nothing is in order but the messages of a pair, and it is left to chance whether a message is copied when it is sent, or lies in the
/// sender's memory until it is received.
///
///     laws::run_queues(4, [](auto& comm) { ... });   // as thread_group(4).run
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "gradsync/comm/blame.hpp"
#include "gradsync/comm/failure.hpp"
#include "gradsync/comm/message_communicator.hpp"
#include "gradsync/comm/message_world.hpp"
#include "tests/laws/scattered.hpp"

namespace gradsync::laws {

struct parcel {
  const std::byte* lent;  // null: copied
  std::vector<std::byte> copy;
  std::size_t bytes;
  bool taken = false;
};

struct post_office {
  std::mutex mutex;
  struct waiting {
    std::condition_variable moved;
    std::uint64_t messages = 0;  // that came for the rank, or were taken from it
  };
  std::map<int, waiting> of_rank;  // of the whole group
  std::unordered_map<std::uint64_t, std::deque<std::shared_ptr<parcel>>> boxes;
  std::uint64_t random = 1, sent = 0;  // messages
};

class queue_endpoint {
 public:
  using stream_type = host_stream;
  static constexpr std::size_t piece_bytes = 16 << 10;

  queue_endpoint(std::shared_ptr<post_office> office, std::shared_ptr<detail::failure> outcome, std::pair<int, int> number, int rank,
                 int size)
      : office_(std::move(office)), outcome_(std::move(outcome)), number_(number), rank_(rank), size_(size) {}
  queue_endpoint(queue_endpoint&&) = default;
  queue_endpoint& operator=(queue_endpoint&& other) {
    leave();
    std::tie(office_, outcome_, number_) = std::tie(other.office_, other.outcome_, other.number_);
    std::tie(rank_, size_) = std::tie(other.rank_, other.size_);
    other.office_ = nullptr;
    receives_ = std::move(other.receives_);
    for (int slot : {0, 1}) sends_[slot] = std::move(other.sends_[slot]);
    return *this;
  }
  ~queue_endpoint() { leave(); }

  int rank() const { return rank_; }
  int size() const { return size_; }
  std::string name(int peer) const { return outcome_->name(peer); }
  place here() const { return outcome_->at(rank_); }
  host_stream& stream() { return stream_; }
  aligned_bytes allocate(std::size_t bytes) { return aligned_bytes(bytes); }

  void begin(unsigned slot) {
    if (!sends_[slot].empty() || under_way(slot)) die("a slot is used twice");
    slot_ = slot;
  }
  void send(const std::byte* from, std::size_t bytes, int peer) {
    if (bytes == 0 || peer == rank_) die("an odd message is sent");
    sends_[slot_].push_back({std::make_shared<parcel>(parcel{from, {}, bytes}), peer});
  }
  void receive(std::byte* to, std::size_t bytes, int peer) {
    if (bytes == 0 || peer == rank_) die("an odd message is received");
    receives_.push_back({slot_, to, bytes, peer});
  }
  void commit() {
    const std::lock_guard hold(office_->mutex);
    for (auto& [what, peer] : sends_[slot_]) {
      ++office_->sent;
      if (laws::mixed(++office_->random) % 2 == 0) {
        what->copy.assign(what->lent, what->lent + what->bytes);
        what->lent = nullptr;
        what->taken = true;
      }
      office_->boxes[box(rank_, peer)].push_back(what);
      wake(peer);
    }
  }

  bool arrived(unsigned slot, const deadline& until) {
    for (;;) {
      const int gone = first_gone(slot);
      if (outcome_->failed()) outcome_->report(rank_);
      const auto [missing, seen] = look(slot, gone < 0);
      if (missing < 0) return true;
      if (gone >= 0 && under_way(slot)) detail::throw_gone(name(gone), here());
      if (until.polling()) return false;
      if (outcome_->passed(until)) detail::throw_late(name(missing), until.limit, here());
      std::unique_lock hold(office_->mutex);  // others need the processor; failures come without a message
      auto& [moved, messages] = of(rank_);
      moved.wait_for(hold, std::chrono::milliseconds(1), [&] { return messages != seen; });
    }
  }

  void leave() {
    if (office_ == nullptr) return;
    const std::lock_guard hold(office_->mutex);
    for (auto& slot : sends_) {
      for (auto& [what, peer] : slot)
        if (!what->taken) std::erase(office_->boxes[box(rank_, peer)], what);
      slot.clear();
    }
    receives_.clear();
  }

 private:
  struct reception {
    unsigned slot;
    std::byte* to;
    std::size_t bytes;
    int peer;
  };

  [[noreturn]] static void die(const char* why) {
    std::fprintf(stderr, "message_queues: %s\n", why);
    std::abort();
  }

  // A number for the group, the endpoint in it, and the two ranks.
  std::uint64_t box(int from, int to) const {
    std::uint64_t all = 0;
    for (const int part : {number_.first, number_.second, outcome_->whole(from), outcome_->whole(to)})
      all = all << 16 | static_cast<std::uint16_t>(part);
    return all;
  }

  post_office::waiting& of(int rank) const { return office_->of_rank[outcome_->whole(rank)]; }
  void wake(int rank) {
    ++of(rank).messages;
    of(rank).moved.notify_all();
  }

  bool under_way(unsigned slot) const {
    for (const reception& r : receives_)
      if (r.slot == slot) return true;
    return false;
  }

  // Some peer that a receive of the slot is for, and that has returned. Asked before looking into the boxes.
  int first_gone(unsigned slot) const {
    for (const reception& r : receives_)
      if (r.slot == slot && outcome_->gone(r.peer)) return r.peer;
    return -1;
  }

  // Takes what there is, or some of it. A peer for which the slot still waits, or -1; and how many messages had moved when nothing more was
  // to be taken.
  std::pair<int, std::uint64_t> look(unsigned slot, bool some) {
    const std::lock_guard hold(office_->mutex);
    std::vector<bool> blocked(static_cast<std::size_t>(size_));
    int missing = -1;
    bool more = false;
    for (std::size_t i = 0; i < receives_.size();) {
      const reception r = receives_[i];
      auto& queue = office_->boxes[box(r.peer, rank_)];
      const bool none = blocked[static_cast<std::size_t>(r.peer)] || queue.empty();
      if (none || (some && laws::mixed(++office_->random) % 4 == 0)) {
        more |= !none;
        blocked[static_cast<std::size_t>(r.peer)] = true;
        if (r.slot == slot) missing = r.peer;
        ++i;
        continue;
      }
      parcel& what = *queue.front();
      if (what.bytes != r.bytes) die("a message has another length than its receiver expects");
      std::memcpy(r.to, what.lent != nullptr ? what.lent : what.copy.data(), r.bytes);
      what.taken = true;
      queue.pop_front();
      wake(r.peer);
      receives_.erase(receives_.begin() + static_cast<std::ptrdiff_t>(i));
    }
    for (const auto& [what, peer] : sends_[slot])
      if (!what->taken) missing = peer;
    if (missing < 0) sends_[slot].clear();
    return {missing, more ? 0 : of(rank_).messages};
  }

  std::shared_ptr<post_office> office_;
  std::shared_ptr<detail::failure> outcome_;
  std::pair<int, int> number_;
  int rank_, size_;
  host_stream stream_;
  unsigned slot_ = 0;
  std::vector<reception> receives_;
  std::vector<std::pair<std::shared_ptr<parcel>, int>> sends_[2];
};

static_assert(endpoint<queue_endpoint>);

class queue_world : public detail::message_world {
 public:
  queue_world(std::shared_ptr<post_office> office, std::shared_ptr<detail::failure> outcome, int rank, int size)
      : message_world(std::move(outcome), rank, size, 0), office_(std::move(office)), next_(std::make_shared<int>(1)) {}

  deadline limit() const { return deadline::after(std::chrono::minutes(1)); }
  bool allows_driver_thread() const { return true; }

  queue_endpoint open() { return {office_, outcome_, {number_, opened_++}, rank_, size_}; }
  int next() const { return *next_; }
  queue_world part(std::span<const int> members, int rank, int number) const {
    queue_world w = *this;
    w.narrow(members, rank, number);
    *next_ = number + 1;
    return w;
  }

  void fail(std::exception_ptr cause) const { outcome_->fail(rank_, std::move(cause)); }
  void abandon(std::exception_ptr cause) const { outcome_->abandon(rank_, std::move(cause)); }

 private:
  std::shared_ptr<post_office> office_;
  std::shared_ptr<int> next_;
};

using queue_communicator = message_communicator<queue_world>;
static_assert(transport<queue_communicator>);

// How many messages the ranks have sent.
template <class Body>
std::uint64_t run_queues(int size, Body&& body) {
  const auto office = std::make_shared<post_office>();
  const auto outcome = std::make_shared<detail::failure>(size, std::chrono::steady_clock::now);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank)
    threads.emplace_back([&, rank] {
      try {
        queue_communicator comm(queue_world(office, outcome, rank, size));
        body(comm);
      } catch (...) {
        outcome->conclude(rank, std::current_exception());
      }
      outcome->leave(rank);
    });
  for (std::thread& t : threads) t.join();
  if (outcome->failed()) std::rethrow_exception(outcome->cause());
  return office->sent;
}

}  // namespace gradsync::laws
