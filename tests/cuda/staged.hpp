// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// A CUDA stream for tests that keep their numbers in host memory: each operation takes copies of all views to the device, equally far from
/// a border of 16 bytes, works there, and brings everything back. What lies between the pieces must stay as it was.
///
///     cuda_stream s(0);
///     staged on_gpu(s);
///     laws::stream_laws<float>(on_gpu);
#pragma once

#include <cuda_runtime_api.h>
#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "gradsync/core/buffer_view.hpp"
#include "gradsync/cuda/memory.hpp"
#include "gradsync/cuda/stream.hpp"

namespace gradsync::tests {

/// Copies from pageable host memory. cudaMemcpy alone may return when it has only read that.
inline void to_device(std::byte* to, const void* from, std::size_t bytes) {
  check(cudaMemcpy(to, from, bytes, cudaMemcpyHostToDevice), "cudaMemcpy");
  check(cudaStreamSynchronize(nullptr), "cudaStreamSynchronize");
}

/// Copies of views in the memory of one device. What was lent twice lies there once.
class stage {
 public:
  explicit stage(int device, std::size_t capacity = 4 << 20)
      : capacity_(capacity), there_(device_memory(capacity, device)), here_(pinned_memory(capacity)) {}

  std::size_t capacity() const { return capacity_; }
  /// Room for copies of `view`, whatever its pieces.
  static std::size_t room_for(const buffer_view& view) { return view.bytes() + (view.extents.size() + 1) * (2 * guard + 32); }

  void clear() {
    pieces_.clear();
    lists_.clear();
    used_ = 0;
  }

  buffer_view add(const buffer_view& view) {
    std::vector<extent>& list = lists_.emplace_back();
    for (const extent& e : view.extents) list.push_back({place_of(e.data, e.count * size_of(view.type)), e.first, e.count});
    return {view.type, list};
  }

  std::byte* place_of(std::byte* data, std::size_t bytes) {
    for (const piece& p : pieces_)
      if (p.data == data && p.bytes == bytes) return there_.get() + p.offset;
    const std::size_t offset = (used_ + guard + 15) / 16 * 16 + reinterpret_cast<std::uintptr_t>(data) % 16;
    used_ = offset + bytes + guard;
    REQUIRE(used_ <= capacity_);
    pieces_.push_back({data, bytes, offset});
    return there_.get() + offset;
  }

  void send(cudaStream_t stream) {
    std::memset(here_.get(), fill, used_);
    for (const piece& p : pieces_)
      if (p.data != nullptr && p.bytes > 0) std::memcpy(here_.get() + p.offset, p.data, p.bytes);
    check(cudaMemcpyAsync(there_.get(), here_.get(), used_, cudaMemcpyHostToDevice, stream), "cudaMemcpyAsync");
  }

  void fetch(cudaStream_t stream) {
    check(cudaMemcpyAsync(here_.get(), there_.get(), used_, cudaMemcpyDeviceToHost, stream), "cudaMemcpyAsync");
    check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
    std::size_t end = 0;
    bool intact = true;
    for (const piece& p : pieces_) {
      for (std::size_t i = end; i < p.offset; ++i) intact = intact && here_.get()[i] == std::byte{fill};
      if (p.data != nullptr && p.bytes > 0) std::memcpy(p.data, here_.get() + p.offset, p.bytes);
      end = p.offset + p.bytes;
    }
    for (std::size_t i = end; i < used_; ++i) intact = intact && here_.get()[i] == std::byte{fill};
    CHECK_MESSAGE(intact, "something was written beside the views");
  }

 private:
  static constexpr std::size_t guard = 64;
  static constexpr int fill = 0xA5;
  struct piece {
    std::byte* data;
    std::size_t bytes, offset;
  };
  std::size_t capacity_, used_ = 0;
  std::shared_ptr<std::byte> there_, here_;
  std::vector<piece> pieces_;
  std::deque<std::vector<extent>> lists_;
};

/// Its calls return when the work is done, though it is a stream that works asynchronously.
class staged {
 public:
  using handle = cudaStream_t;
  using total = const double*;
  static constexpr bool asynchronous = true;

  explicit staged(cuda_stream& s) : stream_(s), stage_(s.device()) {}

  void fold(const buffer_view& to, const buffer_view& from, double weight, std::span<const buffer_view> partials) {
    run([&] {
      std::vector<buffer_view> there;
      const buffer_view result = stage_.add(to), leaf = stage_.add(from);
      for (const buffer_view& partial : partials) there.push_back(stage_.add(partial));
      return [=, this] { stream_.fold(result, leaf, weight, there); };
    });
  }
  /// Every other time Σw lies in device memory.
  void divide(const buffer_view& to, const buffer_view& from, double by) {
    run([&] {
      const buffer_view result = stage_.add(to), source = stage_.add(from);
      const auto* there = reinterpret_cast<const double*>(stage_.place_of(reinterpret_cast<std::byte*>(&by), sizeof by));
      const bool by_value = turn_++ % 2 == 0;
      return [=, this] { by_value ? stream_.divide(result, source, by) : stream_.divide(result, source, there); };
    });
  }
  void divide(const buffer_view& to, const buffer_view& from, total by) { stream_.divide(to, from, by); }
  void wait_for(handle user) { stream_.wait_for(user); }
  void release_to(handle user) { stream_.release_to(user); }
  void copy(const buffer_view& to, const buffer_view& from) {
    run([&] {
      const buffer_view result = stage_.add(to), source = stage_.add(from);
      return [=, this] { stream_.copy(result, source); };
    });
  }
  void join(const buffer_view& to, std::span<const buffer_view> sources, const element_range& range, const device_number& by = {}) {
    run([&] {
      std::vector<buffer_view> there;
      const buffer_view result = stage_.add(to);
      for (const buffer_view& source : sources) there.push_back(stage_.add(source));
      return [=, this] { stream_.join(result, there, range, by); };
    });
  }
  void mean(std::span<const buffer_view> views, std::span<const double> scales, const element_range& range, const device_number& by) {
    run([&] {
      std::vector<buffer_view> there;
      for (const buffer_view& view : views) there.push_back(stage_.add(view));
      return [=, this] { stream_.mean(there, scales, range, by); };
    });
  }

 private:
  // `prepare` puts views on the stage, and returns what to do there.
  template <class Prepare>
  void run(Prepare&& prepare) {
    stage_.clear();
    const auto act = prepare();
    stage_.send(stream_.native());
    act();
    stage_.fetch(stream_.native());
  }

  cuda_stream& stream_;
  stage stage_;
  unsigned turn_ = 0;
};

static_assert(stream<staged>);

}  // namespace gradsync::tests
