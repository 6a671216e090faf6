// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// Zeroed host memory of our own that begins on a cache line, for slots that must not share one and for sums whose bits may depend on
/// alignment (Eigen's do).
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <new>

namespace gradsync {

class aligned_bytes {
 public:
  aligned_bytes() = default;
  explicit aligned_bytes(std::size_t size)
      : data_(size > 0 ? static_cast<std::byte*>(::operator new (size, std::align_val_t{64})) : nullptr), size_(size) {
    std::fill_n(data_.get(), size, std::byte{});
  }
  std::byte* data() const { return data_.get(); }
  std::size_t size() const { return size_; }

 private:
  struct release {
    void operator()(std::byte* p) const { ::operator delete (p, std::align_val_t{64}); }
  };
  std::unique_ptr<std::byte, release> data_;
  std::size_t size_ = 0;
};

}  // namespace gradsync
