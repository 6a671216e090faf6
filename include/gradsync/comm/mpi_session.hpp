// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// MPI from its beginning to its end, and communicators of our own in it.
///
/// Initialises MPI if nobody has, asking for MPI_THREAD_MULTIPLE, and finalizes what it has initialised. Its communicators are duplicates,
/// so nothing meets the user's own messages. These are the only MPI collectives there are: nothing after them can hang in one, but
/// MPI_Finalize, which is watched.
#pragma once

#include <mpi.h>

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>
#include <thread>

#include "gradsync/core/error.hpp"

namespace gradsync::detail {

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

class mpi_session {
 public:
  /// `limit`: how long MPI_Finalize may take.
  mpi_session(MPI_Comm group, std::chrono::nanoseconds limit) : limit_(limit), finalizes_(initialise()), group_(group) {
    check_mpi(MPI_Comm_rank(group_, &rank_), "MPI_Comm_rank");
    check_mpi(MPI_Comm_size(group_, &size_), "MPI_Comm_size");
    for (MPI_Comm* own : {&notes_, &data_[0], &data_[1]}) {
      check_mpi(MPI_Comm_dup(group_, own), "MPI_Comm_dup");
      check_mpi(MPI_Comm_set_errhandler(*own, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    }
    int found = 0, *bound = nullptr;
    check_mpi(MPI_Comm_get_attr(notes_, MPI_TAG_UB, &bound, &found), "MPI_Comm_get_attr");
    if (found != 0) highest_tag_ = *bound;
  }
  ~mpi_session() {
    for (MPI_Comm* own : {&notes_, &data_[0], &data_[1]}) MPI_Comm_free(own);
    if (finalizes_) finalize();
  }
  mpi_session(const mpi_session&) = delete;
  mpi_session& operator=(const mpi_session&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  /// What MPI promises about threads: MPI_THREAD_MULTIPLE, or less.
  int threads() const { return threads_; }
  int highest_tag() const { return highest_tag_; }
  MPI_Comm notes() const { return notes_; }
  /// For runs of even and of odd number, so that a rank may be in the next run while another is still clearing up.
  MPI_Comm data(int run) const { return data_[run % 2]; }

  /// Ends the whole job. Where MPI_Abort itself waits, as for a launcher that is out of reach, at least this process.
  [[noreturn]] void abort() const {
    std::thread([] {
      std::this_thread::sleep_for(std::chrono::seconds(3));
      std::abort();
    }).detach();
    MPI_Abort(group_, 1);
    std::abort();
  }

 private:
  bool initialise() {
    int already = 0, over = 0;
    MPI_Initialized(&already);
    MPI_Finalized(&over);
    if (over != 0) throw usage_error("MPI has been finalized, and cannot be initialised again; keep one mpi_group for the whole program");
    if (already != 0) check_mpi(MPI_Query_thread(&threads_), "MPI_Query_thread");
    else check_mpi(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &threads_), "MPI_Init_thread");
    return already == 0;
  }

  // It waits for all processes, and one that does not come would keep the others for ever.
  void finalize() {
    std::mutex mutex;
    std::condition_variable ended;
    bool over = false;
    std::thread watch([&] {
      std::unique_lock hold(mutex);
      if (ended.wait_for(hold, limit_, [&] { return over; })) return;
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

  std::chrono::nanoseconds limit_;
  int threads_ = MPI_THREAD_SINGLE;
  bool finalizes_;
  MPI_Comm group_, notes_ = MPI_COMM_NULL, data_[2] = {MPI_COMM_NULL, MPI_COMM_NULL};
  int rank_ = 0, size_ = 1, highest_tag_ = 32767;
};

}  // namespace gradsync::detail
