// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// Small messages between the processes of an MPI job, beside their data. Whoever sends one does not wait, and whoever looks for them
/// finds all there are, in the order in which a process sent them.
#pragma once

#include <mpi.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <list>
#include <mutex>
#include <string>
#include <vector>

#include "gradsync/comm/mpi_session.hpp"

namespace gradsync::detail {

struct mpi_note {
  enum kind : std::int32_t {
    failed,     // the sender has failed; `text` says of what
    abandoned,  // it unwinds, from an exception that it doesn't know yet
    gone,       // it has returned from its function
    question,   // whom does the receiver wait for?
    answer,     // for rank `number`
  } what;
  std::int32_t run = 0, number = 0, mismatch = 0;  // number: of `gone` the first that marks no messages of the sender's
  std::uint64_t sent = 0, taken = 0;               // of `gone`: data messages, to the receiver and from it
  std::array<char, 960> text{};                    // so short that no MPI asks before it sends it
};

class mpi_notes {
 public:
  explicit mpi_notes(const mpi_session& session) : session_(&session) { listen(); }
  ~mpi_notes() {
    if (incoming_ != MPI_REQUEST_NULL && MPI_Cancel(&incoming_) == MPI_SUCCESS) MPI_Wait(&incoming_, MPI_STATUS_IGNORE);
  }
  mpi_notes(const mpi_notes&) = delete;
  mpi_notes& operator=(const mpi_notes&) = delete;

  void send(int peer, const mpi_note& what) {
    const std::lock_guard hold(mutex_);
    sent_.push_back({what, MPI_REQUEST_NULL});
    check_mpi(MPI_Isend(&sent_.back().lent, sizeof(mpi_note), MPI_BYTE, peer, 0, session_->notes(), &sent_.back().request), "MPI_Isend");
  }
  /// Whether every note has left this process.
  bool sent_all() {
    const std::lock_guard hold(mutex_);
    reap(sent_);
    return sent_.empty();
  }

  /// Calls `f(sender, note)` for each that has come. One thread at a time.
  template <class F>
  void look(F&& f) {
    for (;;) {
      MPI_Status status;
      int come = 0;
      check_mpi(MPI_Test(&incoming_, &come, &status), "MPI_Test");
      if (come == 0) return;
      const mpi_note copy = here_;
      listen();
      f(status.MPI_SOURCE, copy);
    }
  }

  /// Takes in what data is still on its way to this process, and forgets it. One thread at a time.
  void drain(MPI_Comm data) {
    for (;;) {
      MPI_Message message;
      MPI_Status status;
      int found = 0, bytes = 0;
      check_mpi(MPI_Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, data, &found, &message, &status), "MPI_Improbe");
      if (found == 0) break;
      check_mpi(MPI_Get_count(&status, MPI_BYTE, &bytes), "MPI_Get_count");
      drained_.push_back({std::vector<std::byte>(static_cast<std::size_t>(bytes)), MPI_REQUEST_NULL});
      check_mpi(MPI_Imrecv(drained_.back().lent.data(), bytes, MPI_BYTE, &message, &drained_.back().request), "MPI_Imrecv");
    }
    reap(drained_);
  }

 private:
  template <class Memory>
  struct under_way {
    Memory lent;
    MPI_Request request;
  };

  void listen() { check_mpi(MPI_Irecv(&here_, sizeof(mpi_note), MPI_BYTE, MPI_ANY_SOURCE, 0, session_->notes(), &incoming_), "MPI_Irecv"); }

  template <class List>
  static void reap(List& all) {
    for (auto one = all.begin(); one != all.end();) {
      int done = 0;
      check_mpi(MPI_Test(&one->request, &done, MPI_STATUS_IGNORE), "MPI_Test");
      one = done != 0 ? all.erase(one) : std::next(one);
    }
  }

  const mpi_session* session_;
  std::mutex mutex_;  // of sent_
  mpi_note here_{};
  MPI_Request incoming_ = MPI_REQUEST_NULL;
  std::list<under_way<mpi_note>> sent_;
  std::list<under_way<std::vector<std::byte>>> drained_;
};

}  // namespace gradsync::detail
