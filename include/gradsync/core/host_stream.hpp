// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// The stream of CPU memory: each operation is done, by the calling thread, when the call returns. Holds nothing; any number of threads
/// may have one.
#pragma once

#include <array>
#include <cstring>
#include <span>

#include "gradsync/core/arithmetic.hpp"
#include "gradsync/core/buffer_view.hpp"
#include "gradsync/core/series.hpp"
#include "gradsync/core/stream.hpp"

namespace gradsync {

class host_stream {
 public:
  struct handle {};  ///< the user's work is done when the calling thread comes here
  using total = double;
  static constexpr bool asynchronous = false;
  static constexpr std::size_t max_partials = 32;  ///< one for each doubling of the number of micro-steps

  void fold(const buffer_view& to, const buffer_view& leaf, double weight, series_view<buffer_view> partials) {
    constexpr std::size_t few = 4;  // 34 views take longer to make than a small fold to do
    partials.size() <= few ? fold_up_to<few>(to, leaf, weight, partials) : fold_up_to<max_partials>(to, leaf, weight, partials);
  }

  /// The same where all lie in one stretch of `count` elements each: of small gradients, views take longer to make than their sum.
  void fold(dtype type, std::byte* to, std::byte* leaf, double weight, series_view<std::byte*> partials, std::size_t count) {
    dispatch_gradient(type, [&]<class T>(std::type_identity<T>) {
      std::array<const T*, max_partials> terms;
      for (std::size_t k = 0; k < partials.size(); ++k) terms[k] = reinterpret_cast<const T*>(partials[k]);
      gradsync::fold<T>(reinterpret_cast<T*>(to), reinterpret_cast<const T*>(leaf), weight, terms.data(), static_cast<int>(partials.size()),
                        count);
    });
  }

  void divide(const buffer_view& to, const buffer_view& from, double total_weight) {
    const std::array<buffer_view, 2> views{to, from};
    dispatch_gradient(to.type, [&]<class T>(std::type_identity<T>) {
      walk<T>(std::span(views), [&](std::span<T*> p, std::size_t n) { gradsync::divide<T>(p[0], p[1], n, divisor<T>(total_weight)); });
    });
  }

  void copy(const buffer_view& to, const buffer_view& from) {
    const std::array<buffer_view, 2> views{to, from};
    dispatch_gradient(to.type, [&]<class T>(std::type_identity<T>) {
      walk<T>(std::span(views), [](std::span<T*> p, std::size_t n) { std::memmove(p[0], p[1], n * sizeof(T)); });
    });
  }

  void wait_for(handle) {}
  void release_to(handle) {}

 private:
  template <std::size_t Most>
  static void fold_up_to(const buffer_view& to, const buffer_view& leaf, double weight, series_view<buffer_view> partials) {
    std::array<buffer_view, Most + 2> views;
    views[0] = to;
    views[1] = weight == 0 ? to : leaf;  // a leaf of weight 0 may not even exist
    for (std::size_t k = 0; k < partials.size(); ++k) views[k + 2] = partials[k];
    dispatch_gradient(to.type, [&]<class T>(std::type_identity<T>) {
      walk<T>(std::span(views).first(partials.size() + 2), [&](std::span<T*> p, std::size_t n) {
        gradsync::fold<T>(p[0], p[1], weight, p.data() + 2, static_cast<int>(p.size()) - 2, n);
      });
    });
  }

  template <class T, class F>
  static void walk(series_view<buffer_view> views, F&& f) {
    std::array<T*, max_partials + 2> pointers;
    std::array<std::size_t, max_partials + 2> cursor;
    for_each_run<T>(views, 0, views[0].count(), std::span(pointers).first(views.size()), std::span(cursor).first(views.size()), f);
  }
};

static_assert(stream<host_stream>);

}  // namespace gradsync
