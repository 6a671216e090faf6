// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// Which parameters travel together. A pure function of their counts and types, so all ranks plan alike.
///
/// Backward computes the last layer's gradients first: parameters are taken in reverse model order, one open bucket for each dtype, and a
/// bucket is closed before the parameter that would push it over its cap. The first bucket is small, so that communication starts early
/// (PyTorch DDP, Li et al. 2020). Buckets leave in the order in which reverse model order fills them. Inside a bucket parameters keep
/// their model order, so an arena's stretch is one bucket as it lies. Where the order in which gradients become ready is known, it takes
/// the place of reverse model order.
///
///     std::cout << describe(make_plan(parameters_of(net), {.bucket_bytes = 8 << 20}), parameters_of(net));
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "gradsync/core/dtype.hpp"
#include "gradsync/model/parameter.hpp"

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

struct bucket {
  dtype type = dtype::float32;
  std::vector<slot> slots;       ///< in model order
  std::size_t count = 0;         ///< elements
  std::size_t padded_count = 0;  ///< elements of storage of ours
  std::size_t bytes() const { return count * size_of(type); }

  friend bool operator==(const bucket&, const bucket&) = default;
};

struct bucket_plan {
  std::vector<bucket> buckets;                  ///< in the order in which they leave
  std::vector<std::size_t> bucket_of, slot_of;  ///< by parameter

  friend bool operator==(const bucket_plan&, const bucket_plan&) = default;
};

/// `ready_order` names each parameter once, by its index in model order, the first one ready first; empty: reverse model order.
inline bucket_plan make_plan(std::span<const parameter> parameters, const plan_options& options = {},
                             std::span<const std::uint32_t> ready_order = {}) {
  struct group {
    std::vector<std::size_t> members;
    std::size_t bytes = 0, full_at = 0;  // its last member's position in the order
  };
  std::vector<group> full;
  group open[2];  // float32, float64
  for (std::size_t k = 0; k < parameters.size(); ++k) {
    const std::size_t i = ready_order.empty() ? parameters.size() - 1 - k : ready_order[k];
    group& mine = open[parameters[i].type == dtype::float64 ? 1 : 0];
    const std::size_t cap = full.empty() ? std::min(options.first_bucket_bytes, options.bucket_bytes) : options.bucket_bytes;
    if (!mine.members.empty() && (cap == 0 || mine.bytes + parameters[i].bytes() > cap)) full.push_back(std::exchange(mine, {}));
    mine.members.push_back(i);
    mine.bytes += parameters[i].bytes();
    mine.full_at = k;
  }
  for (group& rest : open)
    if (!rest.members.empty()) full.push_back(std::move(rest));
  std::sort(full.begin(), full.end(), [](const group& a, const group& b) { return a.full_at < b.full_at; });

  bucket_plan plan{
      .buckets = {}, .bucket_of = std::vector<std::size_t>(parameters.size()), .slot_of = std::vector<std::size_t>(parameters.size())};
  for (group& g : full) {
    std::sort(g.members.begin(), g.members.end());
    bucket b;
    b.type = parameters[g.members.front()].type;
    const std::size_t line = 64 / size_of(b.type);
    for (const std::size_t i : g.members) {
      plan.bucket_of[i] = plan.buckets.size();
      plan.slot_of[i] = b.slots.size();
      b.slots.push_back({.parameter = i, .count = parameters[i].count, .first = b.count, .padded = b.padded_count});
      b.count += parameters[i].count;
      b.padded_count += (parameters[i].count + line - 1) / line * line;
    }
    plan.buckets.push_back(std::move(b));
  }
  return plan;
}

/// How a bucket's elements lie in memory.
enum class layout : unsigned char {
  automatic,  ///< in place where peers can read this rank's memory, packed elsewhere
  in_place,   ///< where the user's gradients are: nothing is copied
  adopted,    ///< one stretch that the gradients already live in: an arena, or views that gradsync points into storage of its own
  packed,     ///< one stretch that gradients are copied into and out of
};

constexpr const char* name_of(layout l) {
  constexpr const char* names[] = {"automatic", "in place", "adopted", "packed"};
  return names[static_cast<int>(l)];
}

/// The plan as a table: a line a bucket, in the order in which they leave. Sizes in bytes. The layout is shown if it has been chosen.
inline std::string describe(const bucket_plan& plan, std::span<const parameter> parameters, layout how = layout::automatic) {
  const bool chosen = how != layout::automatic;
  std::string text = std::string("bucket        bytes  type     ") + (chosen ? "layout     " : "") + "parameters\n";
  auto column = [](const std::string& s, std::size_t width, bool right) {
    const std::string pad(s.size() < width ? width - s.size() : 0, ' ');
    return right ? pad + s : s + pad;
  };
  for (std::size_t b = 0; b < plan.buckets.size(); ++b) {
    const bucket& one = plan.buckets[b];
    text += column(std::to_string(b), 6, true) + column(std::to_string(one.bytes()), 13, true) + "  " +
            column(name_of(one.type), 9, false) + (chosen ? column(name_of(how), 11, false) : "");
    const std::size_t shown = std::min<std::size_t>(one.slots.size(), 4);
    for (std::size_t i = 0; i < shown; ++i) text += (i > 0 ? ", " : "") + parameters[one.slots[i].parameter].name();
    if (one.slots.size() > shown) text += ", and " + std::to_string(one.slots.size() - shown) + " more";
    text += '\n';
  }
  return text;
}

}  // namespace gradsync
