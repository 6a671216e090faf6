// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// The sum over the micro-steps of an update, as the canonical tree: n micro-steps on one rank are the same leaves, added in the same
/// order, as one micro-step on each of n ranks. That is why N ranks equal one rank bit for bit.
///
/// Partial sums are kept like the digits of a binary counter: level l holds the sum of 2^l micro-steps. A new leaf is folded with the
/// levels below the first empty one, smallest first, in one pass. n micro-steps need at most log2(n) + 1 copies of the gradients, made
/// when they are first needed.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "gradsync/core/aligned_bytes.hpp"
#include "gradsync/core/buffer_view.hpp"
#include "gradsync/core/series.hpp"
#include "gradsync/core/stream.hpp"
#include "gradsync/model/parameter.hpp"

namespace gradsync {

class accumulation {
 public:
  static constexpr int max_levels = 32;

  explicit accumulation(series_view<parameter> parameters) : parameters_(parameters) {
    for (const parameter& p : parameters) {
      offsets_.push_back(level_bytes_);
      level_bytes_ += (p.bytes() + 63) / 64 * 64;
    }
  }

  std::uint64_t micro_steps() const { return steps_; }
  std::size_t bytes() const { return levels_.size() * level_bytes_; }

  /// Makes room for the level that the coming `more` micro-step will fill, in memory that `allocate(bytes)` gives.
  template <class Allocate>
  void reserve(Allocate&& allocate) {
    while (static_cast<int>(levels_.size()) <= first_empty()) levels_.push_back(allocate(level_bytes_));
  }

  /// The leaf of a parameter in a `more` micro-step: folded and stored.
  template <stream S>
  void take(S& s, std::size_t parameter, memory leaf, double scale) {
    fold(s, at(first_empty(), parameter), parameter, leaf, scale, (std::uint64_t{1} << first_empty()) - 1);
  }

  /// The leaf of the last micro-step: folded with all that was kept, into `to`, which may be the leaf itself.
  template <stream S>
  void close(S& s, memory to, std::size_t parameter, memory leaf, double scale) {
    fold(s, to, parameter, leaf, scale, steps_);
  }

  /// After a micro-step: counts it, and folds its weight as the leaves were folded.
  void count(double weight) {
    weights_[static_cast<std::size_t>(first_empty())] = folded(weight, (std::uint64_t{1} << first_empty()) - 1);
    ++steps_;
  }

  /// The weight of the whole update on this rank, if the last micro-step has this weight.
  double total(double last_weight) const { return folded(last_weight, steps_); }

  /// A new update.
  void reset() { steps_ = 0; }

 private:
  int first_empty() const { return std::countr_one(steps_); }
  memory at(int level, std::size_t parameter) const {
    return {levels_[static_cast<std::size_t>(level)].data() + offsets_[parameter], parameters_[parameter].count};
  }

  double folded(double weight, std::uint64_t occupied) const {
    for (std::size_t l = 0; occupied != 0; ++l, occupied >>= 1)
      if (occupied & 1) weight = weights_[l] + weight;
    return weight;
  }

  template <stream S>
  void fold(S& s, memory to, std::size_t parameter, memory leaf, double scale, std::uint64_t occupied) {
    const dtype type = parameters_[parameter].type;
    std::array<std::byte*, max_levels> terms;
    std::size_t count = 0;
    for (int l = 0; occupied != 0; ++l, occupied >>= 1)
      if (occupied & 1) terms[count++] = at(l, parameter).data;
    const series_view<std::byte*> partials{terms.data(), count};
    if constexpr (requires { s.fold(type, to.data, leaf.data, scale, partials, to.count); }) {
      s.fold(type, to.data, leaf.data, scale, partials, to.count);
    } else {
      std::array<extent, max_levels> extents;
      std::array<buffer_view, max_levels> views;
      for (std::size_t k = 0; k < count; ++k) {
        extents[k] = {partials[k], 0, to.count};
        views[k] = {type, {&extents[k], 1}};
      }
      const extent target{to.data, 0, to.count}, source{leaf.data, 0, to.count};
      s.fold(buffer_view{type, {&target, 1}}, buffer_view{type, {&source, 1}}, scale, series_view<buffer_view>{views.data(), count});
    }
  }

  series_view<parameter> parameters_;
  series<std::size_t> offsets_;
  std::size_t level_bytes_ = 0;
  series<aligned_bytes> levels_;
  std::array<double, max_levels> weights_{};
  std::uint64_t steps_ = 0;
};

}  // namespace gradsync
