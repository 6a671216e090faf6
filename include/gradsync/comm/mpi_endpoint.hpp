// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// An endpoint (comm/endpoint.hpp) over MPI's non-blocking send and receive.
///
/// Each endpoint has a tag of its own, so that what belongs to different channels never meets. Messages beyond 1 GiB travel in several,
/// whose lengths MPI can count. A wait looks at its own requests, at the notes of other ranks, and at the deadline; it never blocks within
/// MPI.
#pragma once

#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gradsync/comm/endpoint.hpp"
#include "gradsync/comm/mpi_process.hpp"
#include "gradsync/core/aligned_bytes.hpp"
#include "gradsync/core/host_stream.hpp"

namespace gradsync {

class mpi_endpoint {
 public:
  using stream_type = host_stream;
  static constexpr std::size_t piece_bytes = 256 << 10;

  /// Rank r here is rank `outcome->whole(r)` of the process's group.
  mpi_endpoint(std::shared_ptr<detail::mpi_process> process, std::shared_ptr<detail::failure> outcome, int rank, int size, int tag)
      : process_(std::move(process)), outcome_(std::move(outcome)), rank_(rank), size_(size), tag_(tag) {}
  mpi_endpoint(mpi_endpoint&&) = default;
  mpi_endpoint& operator=(mpi_endpoint&& other) {
    std::swap(process_, other.process_);  // its destructor gives up what was under way here
    std::swap(outcome_, other.outcome_);
    std::swap(batches_, other.batches_);
    std::swap(done_, other.done_);
    std::swap(rank_, other.rank_);
    std::swap(size_, other.size_);
    std::swap(tag_, other.tag_);
    return *this;
  }
  ~mpi_endpoint() {
    if (process_) leave();
  }

  int rank() const { return rank_; }
  int size() const { return size_; }
  std::string name(int peer) const { return outcome_->name(peer); }
  place here() const { return outcome_->at(rank_); }
  host_stream& stream() { return stream_; }
  aligned_bytes allocate(std::size_t bytes) { return aligned_bytes(bytes); }

  void begin(unsigned slot) { slot_ = slot; }
  void send(const std::byte* from, std::size_t bytes, int peer) {
    detail::each_part(bytes, part_bytes, [&](std::size_t at, std::size_t n) {
      const int count = static_cast<int>(n);
      later_.push_back({from + at, count, peer});
    });
  }
  void receive(std::byte* to, std::size_t bytes, int peer) {
    detail::each_part(bytes, part_bytes, [&](std::size_t at, std::size_t n) {
      const int count = static_cast<int>(n);
      MPI_Request request = MPI_REQUEST_NULL;
      usable();
      detail::check_mpi(MPI_Irecv(to + at, count, MPI_BYTE, outcome_->whole(peer), tag_, process_->data(), &request), "MPI_Irecv");
      batches_[slot_].add(request, {peer, true});
    });
  }
  /// Sends come last, when the receives of this rank are there for those of its peers.
  void commit() {
    for (const outgoing& one : later_) {
      MPI_Request request = MPI_REQUEST_NULL;
      usable();
      detail::check_mpi(MPI_Isend(one.from, one.count, MPI_BYTE, outcome_->whole(one.peer), tag_, process_->data(), &request), "MPI_Isend");
      process_->count_sent(outcome_->whole(one.peer));
      batches_[slot_].add(request, {one.peer, false});
    }
    later_.clear();
  }

  bool arrived(unsigned slot, const deadline& until) {
    batch& all = batches_[slot];
    const waiting here_for(*process_);
    for (detail::patience wait;; wait()) {
      if (look(all)) return true;
      process_->poll();
      if (outcome_->failed()) outcome_->report(rank_);
      const int missing = all.first_left([](const message&) { return true; });
      if (!until.polling()) process_->waits_for(outcome_->whole(missing));
      if (first_gone(all) >= 0) {
        if (look(all)) return true;
        if (const int gone = first_gone(all); gone >= 0) detail::throw_gone(name(gone), here());
      }
      if (until.polling()) return false;
      if (outcome_->passed(until)) blame(missing, until.limit);
    }
  }

  /// Waits until nobody writes to what was lent here or reads it. If that takes long, the job is past saving.
  void leave() {
    later_.clear();
    if (process_->poisoned()) return;
    for (batch& all : batches_)
      for (std::size_t i = 0; i < all.requests.size(); ++i)
        if (all.requests[i] != MPI_REQUEST_NULL && all.messages[i].received) MPI_Cancel(&all.requests[i]);
    const auto begin = std::chrono::steady_clock::now();
    for (detail::patience wait;; wait()) {
      const bool done[] = {look(batches_[0]), look(batches_[1])};
      if (done[0] && done[1]) return;
      process_->poll();
      if (std::chrono::steady_clock::now() - begin > process_->longest(std::chrono::seconds(1))) return process_->poison();
    }
  }

 private:
  static constexpr std::size_t part_bytes = std::size_t{1} << 30;

  struct message {
    int peer;
    bool received;
  };
  struct outgoing {
    const std::byte* from;
    int count, peer;
  };
  struct batch {
    std::vector<MPI_Request> requests;
    std::vector<message> messages;
    std::size_t left = 0;

    void add(MPI_Request request, message what) {
      requests.push_back(request);
      messages.push_back(what);
      ++left;
    }
    // The peer of the first message under way of which f(message), or -1.
    template <class F>
    int first_left(F&& f) const {
      for (std::size_t i = 0; i < requests.size(); ++i)
        if (requests[i] != MPI_REQUEST_NULL && f(messages[i])) return messages[i].peer;
      return -1;
    }
  };
  struct waiting {  // says no longer for whom, when it is over
    explicit waiting(detail::mpi_process& process) : process_(process) {}
    ~waiting() { process_.waits_for(-1); }
    waiting(const waiting&) = delete;
    waiting& operator=(const waiting&) = delete;
    detail::mpi_process& process_;
  };

  void usable() const {
    if (process_->poisoned()) outcome_->report(rank_);
  }

  // Whether all of a batch is done.
  bool look(batch& all) {
    if (all.left > 0) {
      int count = 0;
      done_.resize(all.requests.size());
      detail::check_mpi(MPI_Testsome(static_cast<int>(all.requests.size()), all.requests.data(), &count, done_.data(), MPI_STATUSES_IGNORE),
                        "MPI_Testsome");
      for (int i = 0; i < count; ++i) {
        const message& one = all.messages[static_cast<std::size_t>(done_[static_cast<std::size_t>(i)])];
        if (one.received) process_->count_received(outcome_->whole(one.peer));
      }
      all.left -= static_cast<std::size_t>(std::max(count, 0));
    }
    if (all.left > 0) return false;
    all.requests.clear();
    all.messages.clear();
    return true;
  }

  // Some peer that has returned and will never send, or take, what is under way. -1: none.
  int first_gone(const batch& all) const {
    return all.first_left([&](const message& m) {
      const int peer = outcome_->whole(m.peer);
      return m.received ? process_->sends_no_more(peer) : process_->takes_no_more(peer);
    });
  }

  [[noreturn]] void blame(int missing, std::chrono::nanoseconds limit) {
    const auto [rank, in_turn] = process_->blame(outcome_->whole(missing));
    if (outcome_->failed()) outcome_->report(rank_);
    detail::throw_late(outcome_->name_of_member(rank), limit, here(), in_turn ? detail::waits_in_turn : "");
  }

  std::shared_ptr<detail::mpi_process> process_;
  std::shared_ptr<detail::failure> outcome_;
  host_stream stream_;
  int rank_, size_, tag_;
  unsigned slot_ = 0;
  batch batches_[2];
  std::vector<outgoing> later_;
  std::vector<int> done_;  // scratch
};

static_assert(endpoint<mpi_endpoint>);

}  // namespace gradsync
