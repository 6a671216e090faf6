// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// Zeroed memory of our own that begins on a cache line, for slots that must not share one and for sums whose bits may depend on alignment
/// (Eigen's do). On the host, unless a communicator made it where its ranks sum.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <new>
#include <utility>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace gradsync {

class aligned_bytes {
 public:
  aligned_bytes() = default;
  explicit aligned_bytes(std::size_t size) : data_(size > 0 ? on_host(size) : nullptr), size_(size) {}
  /// Memory of another kind, aligned and zeroed like this; the pointer knows how to give it back.
  aligned_bytes(std::shared_ptr<std::byte> data, std::size_t size) : data_(std::move(data)), size_(size) {}
  aligned_bytes(aligned_bytes&& other) noexcept : data_(std::move(other.data_)), size_(std::exchange(other.size_, 0)) {}
  aligned_bytes& operator=(aligned_bytes&& other) noexcept {
    data_ = std::move(other.data_);
    size_ = std::exchange(other.size_, 0);
    return *this;
  }
  std::byte* data() const { return data_.get(); }
  std::size_t size() const { return size_; }

 private:
  // Where pages are large a core finds twice as many bytes a second; they are asked for before the first touch.
  static constexpr std::size_t large_page = 2 << 20;

  static std::shared_ptr<std::byte> on_host(std::size_t size) {
    const std::align_val_t line{size < large_page ? 64 : large_page};
    std::shared_ptr<std::byte> data(static_cast<std::byte*>(::operator new (size, line)),
                                    [line](std::byte* p) { ::operator delete (p, line); });
#if defined(__linux__)
    if (size >= large_page) madvise(data.get(), size / large_page * large_page, MADV_HUGEPAGE);
#endif
    std::fill_n(data.get(), size, std::byte{});
    return data;
  }

  std::shared_ptr<std::byte> data_;
  std::size_t size_ = 0;
};

}  // namespace gradsync
