// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// Operations that a stream has been given and not launched yet, so that those of many parameters become one launch.
///
/// What is collected is one body and a list of runs. A run joins the list if it neither reads nor writes what an earlier one writes, nor
/// writes what an earlier one reads: the runs of one launch are in no order. Elsewhere, and where the list is full, what there is leaves
/// first.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstring>
#include <type_traits>

#include "gradsync/cuda/launch.hpp"
#include "gradsync/cuda/runs.hpp"

namespace gradsync::detail {

class collected {
 public:
  // One more run of n elements, for `body`. `pointers`: one a view, outputs first.
  template <class Body>
  void add(const Body& body, std::byte* const* pointers, int views, std::size_t n, cudaStream_t stream) {
    static_assert(std::is_trivially_copyable_v<Body> && sizeof(Body) <= sizeof body_);
    if (launch_ != &launch_as<Body> || list_.views != views || !(as<Body>() == body) || !list_.has_room() ||
        depends<Body>(pointers, views, n))
      flush(stream);
    if (list_.runs == 0) {
      std::memcpy(body_, &body, sizeof body);
      launch_ = &launch_as<Body>;
      list_.views = views;
      read_ = written_ = {};
    }
    for (int v = 0; v < views; ++v) (is_output<Body>(v) ? written_ : read_).include(span_of<Body>(pointers[v], v, n));
    list_.template push<Body>(pointers, n);
  }

  // Launches what there is.
  void flush(cudaStream_t stream) {
    if (list_.runs == 0) return;
    const auto launch = launch_;
    launch(*this, stream);
    list_.runs = 0;
  }

 private:
  struct bytes {
    const std::byte *begin = nullptr, *end = nullptr;
    bool meets(const bytes& other) const { return begin < other.end && other.begin < end; }
    void include(const bytes& other) {
      if (begin == nullptr || other.begin < begin) begin = other.begin;
      if (end == nullptr || other.end > end) end = other.end;
    }
  };

  template <class Body>
  static constexpr bool is_output(int view) {
    return Body::everywhere || view == 0;
  }
  template <class Body>
  static bytes span_of(const std::byte* begin, int view, std::size_t n) {
    return {begin, begin + n * Body::bytes_of(view)};
  }

  // Mostly all outputs lie on one side and all inputs on another; only where they lie mixed is each run looked at.
  template <class Body>
  bool depends(std::byte* const* pointers, int views, std::size_t n) const {
    for (int v = 0; v < views; ++v) {
      const bytes mine = span_of<Body>(pointers[v], v, n);
      const bool may = mine.meets(written_) || (is_output<Body>(v) && mine.meets(read_));
      for (int run = 0; may && run < list_.runs; ++run)
        for (int other = 0; other < views; ++other)
          if ((is_output<Body>(v) || is_output<Body>(other)) &&
              mine.meets(span_of<Body>(list_.pointer(run, other), other, list_.count[run])))
            return true;
    }
    return false;
  }

  template <class Body>
  const Body& as() const {
    return *reinterpret_cast<const Body*>(body_);
  }
  template <class Body>
  static void launch_as(collected& all, cudaStream_t stream) {
    launch_map(stream, all.as<Body>(), all.list_);
  }

  run_list list_;
  void (*launch_)(collected&, cudaStream_t) = nullptr;
  alignas(16) std::byte body_[1200];
  bytes read_, written_;  // around all there is
};

}  // namespace gradsync::detail
