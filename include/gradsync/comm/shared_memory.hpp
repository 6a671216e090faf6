// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// Memory of one process that others of its host map too, and what shares it out.
///
/// A segment is a file that exists in memory alone, without a name: nothing of it can be left behind, however its processes end. Others map
/// it through /proc while its maker lives. It is as large as the host's memory, so it never has to grow; only pages that were written to
/// take any. Those of a piece that is given back are the system's again.
#pragma once

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "gradsync/comm/socket.hpp"
#include "gradsync/core/aligned_bytes.hpp"
#include "gradsync/core/error.hpp"

namespace gradsync::detail {

class shared_segment {
 public:
  /// A new one.
  shared_segment() : file_(memfd_create("gradsync", MFD_CLOEXEC)) {
    bytes_ = static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    if (!file_ || ftruncate(file_.get(), static_cast<off_t>(bytes_)) != 0)
      throw transport_error("shared memory cannot be made: " + system_message(errno));
    map("this process");
  }

  /// Another process's, which is named so in errors.
  shared_segment(int process, int file, std::size_t bytes, const std::string& name)
      : file_(open(("/proc/" + std::to_string(process) + "/fd/" + std::to_string(file)).c_str(), O_RDWR | O_CLOEXEC)), bytes_(bytes) {
    if (!file_)
      throw transport_error("the memory of " + name + " (process " + std::to_string(process) + ") cannot be reached: " +
                            system_message(errno) + "; processes that share memory need one user and one process namespace");
    map(name);
    file_ = {};
  }
  shared_segment(const shared_segment&) = delete;
  shared_segment& operator=(const shared_segment&) = delete;
  ~shared_segment() { munmap(data_, bytes_); }

  int file() const { return file_.get(); }
  std::byte* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }

  bool holds(const std::byte* at, std::size_t count) const { return at >= data_ && at + count <= data_ + bytes_; }
  std::size_t offset(const std::byte* at) const { return static_cast<std::size_t>(at - data_); }

 private:
  void map(const std::string& name) {
    void* at = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file_.get(), 0);
    if (at == MAP_FAILED) throw transport_error("the shared memory of " + name + " cannot be mapped: " + system_message(errno));
    data_ = static_cast<std::byte*>(at);
  }

  descriptor file_;
  std::size_t bytes_ = 0;
  std::byte* data_ = nullptr;
};

/// Shares out the own segment, in whole pages. Thread safe. Outlived by no piece: each keeps it.
class shared_heap : public std::enable_shared_from_this<shared_heap> {
 public:
  static constexpr std::size_t page = 4096;

  /// The first `reserved` bytes stay the caller's.
  shared_heap(std::shared_ptr<shared_segment> segment, std::size_t reserved) : segment_(std::move(segment)) {
    const std::size_t first = whole_pages(reserved);
    free_.push_back({first, segment_->bytes() / page * page - first});
  }

  const shared_segment& segment() const { return *segment_; }

  /// From now on nothing is given back: others may still look at it, and have the pages as long as they do.
  void close() {
    const std::lock_guard hold(mutex_);
    closed_ = true;
  }

  /// Zeroed. `transport_error` if there is no room.
  aligned_bytes allocate(std::size_t bytes) {
    if (bytes == 0) return {};
    const std::size_t count = whole_pages(bytes), at = take(count);
    std::shared_ptr<std::byte> data(segment_->data() + at, [self = shared_from_this(), at, count](std::byte*) {
      self->give_back({at, count});
    });
    return aligned_bytes(std::move(data), bytes);
  }

 private:
  struct piece {
    std::size_t first, bytes;
  };

  static std::size_t whole_pages(std::size_t bytes) { return (bytes + page - 1) / page * page; }

  std::size_t take(std::size_t bytes) {
    const std::lock_guard hold(mutex_);
    for (piece& p : free_) {
      if (p.bytes < bytes) continue;
      p.bytes -= bytes;
      return std::exchange(p.first, p.first + bytes);
    }
    throw transport_error("shared memory of " + std::to_string(bytes) + " bytes is more than this host has");
  }

  void give_back(piece p) {
    const std::lock_guard hold(mutex_);
    if (closed_) return;
    madvise(segment_->data() + p.first, p.bytes, MADV_REMOVE);  // reads as zeros from now on
    auto next = std::find_if(free_.begin(), free_.end(), [&](const piece& other) { return other.first > p.first; });
    next = free_.insert(next, p);
    if (const auto after = next + 1; after != free_.end() && next->first + next->bytes == after->first) {
      next->bytes += after->bytes;
      free_.erase(after);
    }
    if (next != free_.begin() && (next - 1)->first + (next - 1)->bytes == next->first) {
      (next - 1)->bytes += next->bytes;
      free_.erase(next);
    }
  }

  std::shared_ptr<shared_segment> segment_;
  std::mutex mutex_;
  std::vector<piece> free_;  // in order, none next to another
  bool closed_ = false;
};

}  // namespace gradsync::detail
