// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// Σw on the device: each rank's weight is gathered, and all are added in the canonical tree, without the host.
///
/// A ring of entries, so that those of the last collectives can still be read: one rank's weight, the ranks' weights, their sum, and a copy
/// of the sum in pinned memory.
#pragma once

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "gradsync/comm/nccl_check.hpp"
#include "gradsync/core/buffer_view.hpp"
#include "gradsync/cuda/memory.hpp"
#include "gradsync/cuda/stream.hpp"

namespace gradsync::detail {

class nccl_weights {
 public:
  /// `entries` is a power of two.
  nccl_weights(int device, int ranks, std::size_t entries)
      : ranks_(static_cast<std::size_t>(ranks)), parts_((ranks_ + most_sources - 1) / most_sources), width_(ranks_ + parts_ + 2),
        entry_of_(entries), on_host_(pinned_memory(entries * sizeof(double))),
        on_device_(device_memory((entries * width_ + 1) * sizeof(double), device)) {
    const double one = 1;
    const on_device here(device);
    check(cudaMemcpy(unit(), &one, sizeof one, cudaMemcpyHostToDevice), "cudaMemcpy");
    check(cudaStreamSynchronize(nullptr), "cudaStreamSynchronize");  // the copy may return before it is done, as pageable memory's do
  }

  std::size_t bytes() const { return (entry_of_.size() * width_ + 1) * sizeof(double); }

  /// This rank's part of a new sum, for collective `sequence`. By a kernel, whose argument it is: the host may go on at once.
  void put(cuda_stream& stream, std::uint32_t sequence, double weight) {
    newest_ = slot(sequence);
    entry_of_[newest_] = newest_;
    extent to{own_part(newest_), 0, 1}, from{unit(), 0, 1};
    stream.fold({dtype::float64, std::span(&to, 1)}, {dtype::float64, std::span(&from, 1)}, weight, {});
  }
  /// Collective `sequence` has the same sum as the one before.
  void repeat(std::uint32_t sequence) { entry_of_[slot(sequence)] = newest_; }

  void gather(cuda_stream& stream, ncclComm_t comm) {
    check(ncclAllGather(own_part(newest_), all(newest_), 1, ncclFloat64, comm, stream.native()), "ncclAllGather");
  }

  /// In blocks that one pass adds, and then the blocks: a block is a power of two, so that is the tree over all.
  void add(cuda_stream& stream) {
    double* const from = reinterpret_cast<double*>(all(newest_));
    double* const blocks = from + ranks_;
    double* const sum = blocks + parts_;
    for (std::size_t b = 0; b < parts_; ++b)
      join(stream, parts_ == 1 ? sum : blocks + b, from + b * most_sources, std::min<std::size_t>(most_sources, ranks_ - b * most_sources));
    if (parts_ > 1) join(stream, sum, blocks, parts_);
    check(cudaMemcpyAsync(reinterpret_cast<double*>(on_host_.get()) + newest_, sum, sizeof *sum, cudaMemcpyDeviceToHost, stream.native()),
          "cudaMemcpyAsync");
  }

  const double* total(std::uint32_t sequence) const {
    return reinterpret_cast<const double*>(all(entry_of_[slot(sequence)])) + ranks_ + parts_;
  }
  /// Once all that the stream has been given is done.
  double on_host(std::uint32_t sequence) const {
    return 0 + reinterpret_cast<const double*>(on_host_.get())[entry_of_[slot(sequence)]];  // of weights that are all 0 the device makes -0
  }

 private:
  std::size_t slot(std::uint32_t sequence) const { return sequence % entry_of_.size(); }
  std::byte* unit() const { return on_device_.get() + entry_of_.size() * width_ * sizeof(double); }
  std::byte* own_part(std::size_t entry) const { return on_device_.get() + entry * width_ * sizeof(double); }
  std::byte* all(std::size_t entry) const { return own_part(entry) + sizeof(double); }

  void join(cuda_stream& stream, double* to, double* from, std::size_t count) {
    extents_.clear();
    for (std::size_t i = 0; i <= count; ++i) extents_.push_back({reinterpret_cast<std::byte*>(i < count ? from + i : to), 0, 1});
    sources_.clear();
    for (const extent& e : extents_) sources_.push_back({dtype::float64, std::span(&e, 1)});
    stream.join(sources_.back(), std::span(sources_).first(count), {0, 1});
  }

  std::size_t ranks_, parts_, width_;  // an entry: own weight, all weights, sums of blocks, sum
  std::vector<std::size_t> entry_of_;  // by slot of a collective
  std::size_t newest_ = 0;
  std::shared_ptr<std::byte> on_host_, on_device_;  // what is freed first, the device's, waits for the device
  std::vector<extent> extents_;
  std::vector<buffer_view> sources_;
};

}  // namespace gradsync::detail
