// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// The one rule by which parameters are put into buckets. It runs at start (plan.hpp) and in the compiler (constant_plan.hpp).
///
/// Parameters are taken in the order in which they become ready, one open bucket for each dtype, and a bucket is closed before the
/// parameter that would push it over its cap. Buckets leave in the order in which they are filled.
///
///     std::vector<std::size_t> bucket_of(items.size());
///     const std::size_t buckets = cut_buckets(items, {.bucket_bytes = 8 << 20}, {}, bucket_of);
#pragma once

#include <algorithm>  // the smaller cap
#include <cstddef>    // counts
#include <cstdint>    // indices in an order
#include <span>       // lists

#include "gradsync/core/dtype.hpp"
#include "gradsync/core/series.hpp"

namespace gradsync {

struct plan_options {
  std::size_t bucket_bytes = 25 << 20;       ///< cap of a bucket; a larger parameter has one of its own; 0: every parameter has
  std::size_t first_bucket_bytes = 1 << 20;  ///< cap of the first bucket, where that is less
};

/// One parameter's place in its bucket.
struct slot {
  std::size_t parameter = 0;  ///< index in model order
  std::size_t count = 0;      ///< elements
  std::size_t first = 0;      ///< its first element among the bucket's elements
  std::size_t padded = 0;     ///< the same in storage of ours, where every slot begins on 64 bytes

  friend bool operator==(const slot&, const slot&) = default;
};

/// What the rule needs to know of a parameter.
struct plan_item {
  dtype type = dtype::float32;
  std::size_t count = 0;  ///< elements

  constexpr std::size_t bytes() const { return count * size_of(type); }
};

/// Writes for each parameter the bucket that it belongs to, and returns how many there are. `ready_order` names each parameter once, by its
/// index, the first one ready first; empty: reverse model order. `Indices` is a std::vector or std::array as long as `items`.
template <class Indices>
constexpr std::size_t cut_buckets(series_view<plan_item> items, const plan_options& options, std::span<const std::uint32_t> ready_order,
                                  Indices& bucket_of) {
  struct {
    std::size_t bucket = 0, members = 0, bytes = 0;
  } open[2];  // float32, float64
  auto nth_ready = [&](std::size_t k) { return ready_order.empty() ? items.size() - 1 - k : ready_order[k]; };
  std::size_t opened = 0, closed = 0;
  for (std::size_t k = 0; k < items.size(); ++k) {
    const plan_item& item = items[nth_ready(k)];
    auto& mine = open[item.type == dtype::float64 ? 1 : 0];
    const std::size_t cap = closed == 0 ? std::min(options.first_bucket_bytes, options.bucket_bytes) : options.bucket_bytes;
    const bool full = mine.members > 0 && (cap == 0 || mine.bytes + item.bytes() > cap);
    if (full) ++closed;
    if (full || mine.members == 0) mine = {opened++, 0, 0};
    ++mine.members;
    mine.bytes += item.bytes();
    bucket_of[nth_ready(k)] = mine.bucket;
  }
  // Numbered as they were opened so far: now as they are filled, that is, by the last of their members.
  Indices number = bucket_of;
  for (std::size_t b = 0; b < opened; ++b) number[b] = opened;
  for (std::size_t k = items.size(), left = opened; k-- > 0;)
    if (std::size_t& n = number[bucket_of[nth_ready(k)]]; n == opened) n = --left;
  for (std::size_t i = 0; i < items.size(); ++i) bucket_of[i] = number[bucket_of[i]];
  return opened;
}

/// Puts a parameter behind those that are in the bucket: anything with `type`, `count` and `padded_count`.
template <class Bucket>
constexpr slot append_to(Bucket& b, std::size_t parameter, const plan_item& item) {
  const slot at{.parameter = parameter, .count = item.count, .first = b.count, .padded = b.padded_count};
  const std::size_t line = 64 / size_of(item.type);
  b.type = item.type;
  b.count += item.count;
  b.padded_count += (item.count + line - 1) / line * line;
  return at;
}

}  // namespace gradsync
