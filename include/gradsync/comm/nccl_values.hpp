// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// A user's own values over NCCL: sums, minima, maxima and broadcasts of host memory, staged through the device; and broadcasts, sums and
/// gatherings of device memory. They block.
///
/// Each call begins by gathering a block of 256 bytes of every rank: what it calls, and its values as far as they fit. So ranks that
/// disagree find out, also where they are processes, and a small call takes one round. Values are combined on the host, in the canonical
/// tree: any type, and the bits of threads.
#pragma once

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "gradsync/comm/nccl_check.hpp"
#include "gradsync/comm/nccl_link.hpp"
#include "gradsync/core/arithmetic.hpp"
#include "gradsync/core/dtype.hpp"
#include "gradsync/core/error.hpp"
#include "gradsync/cuda/memory.hpp"
#include "gradsync/cuda/stream.hpp"

namespace gradsync::detail {

class nccl_values {
 public:
  nccl_values(std::shared_ptr<nccl_link> link, int size)
      : link_(std::move(link)), size_(static_cast<std::size_t>(size)),
        tile_(std::clamp<std::size_t>((std::size_t{4} << 20) / size_, block_bytes, std::size_t{64} << 10) / block_bytes * block_bytes),
        stream_(std::make_shared<cuda_stream>(link_->device())), host_(pinned_memory((size_ + 1) * tile_)),
        device_(device_memory((size_ + 1) * tile_, link_->device())) {}

  nccl_values(const nccl_values&) = delete;
  nccl_values& operator=(const nccl_values&) = delete;

  std::size_t bytes() const { return (size_ + 1) * tile_; }
  cuda_stream& stream() { return *stream_; }

  /// Every rank's values combined, in place.
  template <class T>
  void combine(std::span<T> values, reduce_op op, const nccl_request& request) {
    const auto bytes = std::as_writable_bytes(values);
    const auto reduce = [&](std::size_t first, std::size_t n) {
      std::vector<T*> at(size_);
      for (std::size_t r = 0; r < size_; ++r) at[r] = reinterpret_cast<T*>(gathered(r));
      switch (op) {
        case reduce_op::sum: reduce_all<reduce_op::sum, T>(at.data(), static_cast<int>(size_), n); break;
        case reduce_op::min: reduce_all<reduce_op::min, T>(at.data(), static_cast<int>(size_), n); break;
        default: reduce_all<reduce_op::max, T>(at.data(), static_cast<int>(size_), n);
      }
      if (n > 0) std::memcpy(values.data() + first, at[0], n * sizeof(T));
    };
    if (meet(request, bytes)) return reduce(0, values.size());
    for (std::size_t first = 0; first < values.size(); first += tile_ / sizeof(T)) {
      const std::size_t n = std::min(tile_ / sizeof(T), values.size() - first);
      gather(bytes.subspan(first * sizeof(T), n * sizeof(T)));
      reduce(first, n);
    }
  }

  /// The root's bytes for every rank.
  void broadcast(std::span<std::byte> bytes, int root, const nccl_request& request) {
    const bool gives = link_->rank() == root;
    if (meet(request, bytes)) {
      if (!bytes.empty()) std::memcpy(bytes.data(), gathered(static_cast<std::size_t>(root)), bytes.size());
      return;
    }
    for (std::size_t first = 0; first < bytes.size(); first += tile_) {
      const auto part = bytes.subspan(first, std::min(tile_, bytes.size() - first));
      if (gives) std::memcpy(host_.get(), part.data(), part.size());
      if (gives) copy(device_.get(), host_.get(), part.size());
      check(ncclBroadcast(device_.get(), device_.get(), part.size(), ncclUint8, root, link_->native(), stream_->native()), "ncclBroadcast");
      copy(host_.get(), device_.get(), part.size());
      await(request);
      if (!gives) std::memcpy(part.data(), host_.get(), part.size());
    }
  }

  /// The root's elements of device memory for every rank, in whatever pieces each keeps them. What the device has been given so far comes
  /// first.
  void broadcast(const buffer_view& values, int root, const nccl_request& request) {
    begin_on_device(request);
    const std::size_t width = size_of(values.type), most = tile_ / width, count = values.count();
    for (std::size_t first = 0; first < count; first += most) {
      const std::size_t n = std::min(most, count - first);
      if (link_->rank() == root)
        each_piece(values, first, n, [&](std::byte* data, std::size_t at, std::size_t bytes) { copy(device_.get() + at, data, bytes); });
      check(ncclBroadcast(device_.get(), device_.get(), n * width, ncclUint8, root, link_->native(), stream_->native()), "ncclBroadcast");
      if (link_->rank() != root)
        each_piece(values, first, n, [&](std::byte* data, std::size_t at, std::size_t bytes) { copy(data, device_.get() + at, bytes); });
    }
    await(request);
  }

  /// `part` becomes the sum of what lies at this rank's place in every rank's `all`. Both contiguous.
  void reduce_scatter(const extent& part, const extent& all, dtype type, const nccl_request& request) {
    begin_on_device(request);
    check(ncclReduceScatter(all.data, part.data, part.count, nccl_type(type), ncclSum, link_->native(), stream_->native()),
          "ncclReduceScatter");
    await(request);
  }

  /// `all` becomes every rank's `part`, by rank. Both contiguous.
  void all_gather(const extent& all, const extent& part, dtype type, const nccl_request& request) {
    begin_on_device(request);
    check(ncclAllGather(part.data, all.data, part.count * size_of(type), ncclUint8, link_->native(), stream_->native()), "ncclAllGather");
    await(request);
  }

 private:
  static constexpr std::size_t block_bytes = 256;

  // Values on the device are made on streams that nobody has named.
  void begin_on_device(const nccl_request& request) {
    link_->refuse_capture(request.what);
    link_->synchronize_device(request.what);
    meet(request, {});
  }

  static constexpr std::size_t room = block_bytes - sizeof(nccl_request);
  static_assert(sizeof(nccl_request) % 8 == 0 && std::is_trivially_copyable_v<nccl_request>);

  std::byte* gathered(std::size_t rank) const { return host_.get() + tile_ + rank * stride_ + offset_; }

  // Compares what the ranks ask for. True if their values came along.
  bool meet(const nccl_request& request, std::span<const std::byte> values) {
    link_->refuse_capture(request.what);
    const on_device here(link_->device());
    number_ = link_->announce(request);
    std::byte block[block_bytes] = {};
    std::memcpy(block, &request, sizeof request);
    const bool fits = values.size() <= room;
    if (fits && !values.empty()) std::memcpy(block + sizeof request, values.data(), values.size());
    gather(block);
    for (std::size_t rank = 0; rank < size_; ++rank) {
      nccl_request theirs;
      std::memcpy(&theirs, gathered(rank), sizeof theirs);
      if (!(theirs == request)) refuse(static_cast<int>(rank), theirs, request);
    }
    offset_ = sizeof request;
    return fits;
  }

  [[noreturn]] void refuse(int rank, const nccl_request& theirs, const nccl_request& mine) const {
    throw mismatch_error(link_->outcome().name(rank) + " calls " + text_of(theirs) + ", this rank " + text_of(mine) +
                             "; make the same calls with the same lengths in the same order on every rank",
                         link_->outcome().at(link_->rank()));
  }

  // Of every rank, as many bytes.
  void gather(std::span<const std::byte> mine) {
    stride_ = (mine.size() + 7) / 8 * 8, offset_ = 0;
    std::memcpy(host_.get(), mine.data(), mine.size());
    copy(device_.get(), host_.get(), stride_);
    check(ncclAllGather(device_.get(), device_.get() + tile_, stride_, ncclUint8, link_->native(), stream_->native()), "ncclAllGather");
    copy(host_.get() + tile_, device_.get() + tile_, size_ * stride_);
    await({"values"});
  }

  void copy(std::byte* to, const std::byte* from, std::size_t bytes) {
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream_->native()), "cudaMemcpyAsync");
  }

  void await(const nccl_request& request) {
    link_->watchdog()->watch(stream_->native(), {request.what, number_, link_->shared_world()});
    link_->await(stream_->native());
  }

  // f(where, offset in bytes within the n elements, bytes) for each piece.
  template <class F>
  static void each_piece(const buffer_view& values, std::size_t first, std::size_t n, F&& f) {
    const std::size_t width = size_of(values.type), last = first + n;
    for (const extent& e : values.extents) {
      const std::size_t begin = std::max(first, e.first), end = std::min(last, e.first + e.count);
      if (begin < end) f(e.data + (begin - e.first) * width, (begin - first) * width, (end - begin) * width);
    }
  }

  std::shared_ptr<nccl_link> link_;
  std::size_t size_, tile_;  // bytes of each rank that travel at once
  std::shared_ptr<cuda_stream> stream_;
  std::shared_ptr<std::byte> host_, device_;  // a tile of this rank, and one of each; what is freed first waits for the device
  std::size_t stride_ = 0, offset_ = 0;       // of what was gathered
  std::uint64_t number_ = 0;
};

}  // namespace gradsync::detail
