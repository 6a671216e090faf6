// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// The stream of a CUDA device: every operation is enqueued and the call returns; the bits are those of `host_stream`.
///
/// Operations of one kind that follow each other leave together: a bucket of a hundred gradients is packed by one or two launches. What is
/// collected leaves by itself wherever order needs it: before an operation of another kind or one that depends on it, before `release_to`,
/// and before `native()` shows the stream to anybody. Nothing here waits for the device, so all of it can be captured in a CUDA graph.
/// What was collected and has not left when the stream is destroyed is dropped.
///
///     cuda_stream communication(0, stream_priority::high);
///     communication.wait_for(compute);                    // after the backward kernels that `compute` has been given
///     communication.copy(bucket, gradients);              // one launch, whatever the number of parameters
///     ncclAllReduce(…, communication.native());           // launches the copy first
///     communication.divide(gradients, bucket, total);     // Σw from device memory
///     communication.release_to(compute);                  // the optimizer comes after that
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "gradsync/core/buffer_view.hpp"
#include "gradsync/core/error.hpp"
#include "gradsync/core/stream.hpp"
#include "gradsync/cuda/collected.hpp"
#include "gradsync/cuda/device.hpp"
#include "gradsync/cuda/event.hpp"
#include "gradsync/cuda/kernels.hpp"

namespace gradsync {

/// Whether a stream's kernels go first where both could run; communication is worth it, since computing fills what it leaves.
enum class stream_priority { normal, high };

/// Elements first .. last - 1 of every view of an operation.
struct element_range {
  std::size_t first, last;
};

/// Used by one thread at a time.
class cuda_stream {
 public:
  using handle = cudaStream_t;  ///< names a stream of the user's
  using total = const double*;  ///< Σw, in memory of the device or pinned
  static constexpr bool asynchronous = true;
  static constexpr std::size_t max_partials = 32;  ///< one for each doubling of the number of micro-steps

  explicit cuda_stream(int device, stream_priority priority = stream_priority::normal)
      : device_(device), arrival_(device), departure_(device), pending_(std::make_unique<detail::collected>()) {
    const on_device here(device);
    int least = 0, greatest = 0;
    check(cudaDeviceGetStreamPriorityRange(&least, &greatest), "cudaDeviceGetStreamPriorityRange");
    cudaStream_t made = nullptr;
    check(cudaStreamCreateWithPriority(&made, cudaStreamNonBlocking, priority == stream_priority::high ? greatest : least),
          "cudaStreamCreateWithPriority");
    stream_.reset(made);
  }

  int device() const { return device_; }

  /// The stream itself, after what has been collected. What is enqueued there keeps its order with operations before and after.
  cudaStream_t native() {
    flush();
    return stream_.get();
  }

  /// Launches what has been collected.
  void flush() {
    const on_device here(device_);
    pending_->flush(stream_.get());
  }

  /// to = partials[k-1] + (… + (partials[0] + from · weight)). Weight 0: a leaf of -0, and `from` may be anything.
  void fold(const buffer_view& to, const buffer_view& from, double weight, std::span<const buffer_view> partials) {
    if (partials.size() > max_partials) throw usage_error("a fold takes at most 32 partial sums, not " + std::to_string(partials.size()));
    std::array<buffer_view, max_partials + 2> all;
    all[0] = to;
    all[1] = weight == 0 ? to : from;
    for (std::size_t k = 0; k < partials.size(); ++k) all[k + 2] = partials[k];
    const std::span<const buffer_view> views(all.data(), partials.size() + 2);
    dispatch_gradient(to.type, [&]<class T>(std::type_identity<T>) {
      switch (partials.size()) {
        case 0: return collect(detail::fold_body<T, 0>(weight), views);
        case 1: return collect(detail::fold_body<T, 1>(weight), views);
        case 2: return collect(detail::fold_body<T, 2>(weight), views);
        default: return collect(detail::fold_body<T, -1>(weight), views);
      }
    });
  }

  /// Elements of any type; of the range, or all.
  void copy(const buffer_view& to, const buffer_view& from) { copy(to, from, {0, to.count()}); }
  void copy(const buffer_view& to, const buffer_view& from, const element_range& range) {
    const std::array<buffer_view, 2> views{to, from};
    switch (size_of(to.type)) {
      case 1: return collect(detail::copy_body<std::uint8_t>{}, views, range);
      case 2: return collect(detail::copy_body<std::uint16_t>{}, views, range);
      case 4: return collect(detail::copy_body<std::uint32_t>{}, views, range);
      default: return collect(detail::copy_body<std::uint64_t>{}, views, range);
    }
  }

  /// *to = value, in memory of the device.
  void assign(double* to, double value) {
    const on_device here(device_);
    std::byte* const at[] = {reinterpret_cast<std::byte*>(to)};
    pending_->add(detail::assign_body(value), at, 1, 1, stream_.get());
  }

  /// to = from / Σw, rounded once; Σw = 0 gives +0. `to` may be `from`.
  void divide(const buffer_view& to, const buffer_view& from, total at) { divide(to, from, device_number{.at = at}); }
  void divide(const buffer_view& to, const buffer_view& from, double by) { divide(to, from, device_number{.at = nullptr, .value = by}); }

  /// The range of `to` becomes the canonical tree over the sources, divided: in one pass. `to` may be one of them.
  void join(const buffer_view& to, std::span<const buffer_view> sources, const element_range& range, const device_number& by = {}) {
    expect_sources(sources.size());
    views_.assign(1, to);
    views_.insert(views_.end(), sources.begin(), sources.end());
    dispatch_gradient(to.type, [&]<class T>(std::type_identity<T>) {
      switch (sources.size()) {
        case 2: return collect(detail::join_body<T, 2>(by), views_, range);
        case 3: return collect(detail::join_body<T, 3>(by), views_, range);
        case 4: return collect(detail::join_body<T, 4>(by), views_, range);
        case 8: return collect(detail::join_body<T, 8>(by), views_, range);
        default: return collect(detail::join_body<T, 0>(by), views_, range);
      }
    });
  }

  /// The range of every view becomes the canonical tree over view s · scales[s], divided: the slice of a fused all-reduce between peers.
  void mean(std::span<const buffer_view> views, std::span<const double> scales, const element_range& range, const device_number& by) {
    expect_sources(views.size());
    dispatch_gradient(views[0].type, [&]<class T>(std::type_identity<T>) {
      switch (views.size()) {
        case 2: return collect(detail::mean_body<T, 2>(by, scales), views, range);
        case 4: return collect(detail::mean_body<T, 4>(by, scales), views, range);
        case 8: return collect(detail::mean_body<T, 8>(by, scales), views, range);
        default: return collect(detail::mean_body<T, 0>(by, scales), views, range);
      }
    });
  }

  /// Later work of this stream comes after all that the user's has been given so far. What is collected is later work.
  void wait_for(handle user) {
    const on_device here(device_);
    arrival_.record(user);
    arrival_.delay(stream_.get());
  }

  /// Later work of the user's stream comes after all that this one has been given so far.
  void release_to(handle user) {
    const on_device here(device_);
    pending_->flush(stream_.get());
    departure_.record(stream_.get());
    departure_.delay(user);
  }

 private:
  struct destroy {
    void operator()(cudaStream_t stream) const { static_cast<void>(cudaStreamDestroy(stream)); }
  };

  static void expect_sources(std::size_t count) {
    if (count == 0 || count > detail::most_sources) throw usage_error("one pass adds 1 to 64 sources, not " + std::to_string(count));
  }

  void divide(const buffer_view& to, const buffer_view& from, const device_number& by) {
    const std::array<buffer_view, 2> views{to, from};
    dispatch_gradient(to.type, [&]<class T>(std::type_identity<T>) { collect(detail::divide_body<T>(by), views); });
  }

  template <class Body>
  void collect(const Body& body, std::span<const buffer_view> views) {
    collect(body, views, {0, views[0].count()});
  }

  template <class Body>
  void collect(const Body& body, std::span<const buffer_view> views, const element_range& range) {
    using element = typename Body::element;
    const on_device here(device_);
    std::array<element*, detail::most_sources + 1> pointers;
    std::array<std::size_t, detail::most_sources + 1> cursor;
    std::array<std::byte*, detail::most_sources + 1> at;
    for_each_run<element>(views, range.first, range.last, std::span(pointers).first(views.size()), std::span(cursor).first(views.size()),
                          [&](std::span<element*> p, std::size_t n) {
                            for (std::size_t v = 0; v < p.size(); ++v) at[v] = reinterpret_cast<std::byte*>(p[v]);
                            pending_->add(body, at.data(), static_cast<int>(p.size()), n, stream_.get());
                          });
  }

  int device_;
  cuda_event arrival_, departure_;
  std::unique_ptr<detail::collected> pending_;
  std::unique_ptr<CUstream_st, destroy> stream_;
  std::vector<buffer_view> views_;  // scratch
};

static_assert(stream<cuda_stream>);

}  // namespace gradsync
