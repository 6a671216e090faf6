// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// Which parameters travel together. A pure function of their counts and types, so all ranks plan alike.
///
/// Backward computes the last layer's gradients first: parameters are taken in reverse model order, one open bucket for each dtype, and a
/// bucket is closed before the parameter that would push it over its cap (cuts.hpp). The first bucket is small, so that communication
/// starts early (PyTorch DDP, Li et al. 2020). Buckets leave in the order in which reverse model order fills them. Inside a bucket
/// parameters keep their model order, so an arena's stretch is one bucket as it lies. Where the order in which gradients become ready is
/// known, it takes the place of reverse model order.
///
///     std::cout << describe(make_plan(parameters_of(net), {.bucket_bytes = 8 << 20}), parameters_of(net));
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "gradsync/bucket/cuts.hpp"
#include "gradsync/core/dtype.hpp"
#include "gradsync/core/series.hpp"
#include "gradsync/model/parameter.hpp"

namespace gradsync {

struct bucket {
  dtype type = dtype::float32;
  series<slot> slots;            ///< in model order
  std::size_t count = 0;         ///< elements
  std::size_t padded_count = 0;  ///< elements of storage of ours
  std::size_t bytes() const { return count * size_of(type); }

  friend bool operator==(const bucket&, const bucket&) = default;
};

struct bucket_plan {
  series<bucket> buckets;                  ///< in the order in which they leave
  series<std::size_t> bucket_of, slot_of;  ///< by parameter

  friend bool operator==(const bucket_plan&, const bucket_plan&) = default;
};

/// `ready_order` names each parameter once, by its index in model order, the first one ready first; empty: reverse model order.
inline bucket_plan make_plan(series_view<parameter> parameters, const plan_options& options = {},
                             std::span<const std::uint32_t> ready_order = {}) {
  series<plan_item> items;
  for (const parameter& p : parameters) items.push_back({p.type, p.count});
  bucket_plan plan{.buckets = {}, .bucket_of = series<std::size_t>(items.size()), .slot_of = series<std::size_t>(items.size())};
  plan.buckets.resize(cut_buckets(items, options, ready_order, plan.bucket_of));
  for (std::size_t i = 0; i < items.size(); ++i) {
    bucket& mine = plan.buckets[plan.bucket_of[i]];
    plan.slot_of[i] = mine.slots.size();
    mine.slots.push_back(append_to(mine, i, items[i]));
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

/// The plan as a table: a line a bucket, in the order in which they leave. Sizes in bytes. The layout is shown if it has been chosen, and
/// what sums each bucket if `strategies` has a name for each.
inline std::string describe(const bucket_plan& plan, series_view<parameter> parameters, layout how = layout::automatic,
                            series_view<std::string> strategies = {}) {
  const bool chosen = how != layout::automatic;
  std::size_t widest = 8;
  for (const std::string& name : strategies) widest = std::max(widest, name.size());
  auto column = [](const std::string& s, std::size_t width, bool right) {
    const std::string pad(s.size() < width ? width - s.size() : 0, ' ');
    return right ? pad + s : s + pad;
  };
  std::string text = std::string("bucket        bytes  type     ") + (chosen ? "layout     " : "") +
                     (strategies.empty() ? "" : column("strategy", widest + 2, false)) + "parameters\n";
  for (std::size_t b = 0; b < plan.buckets.size(); ++b) {
    const bucket& one = plan.buckets[b];
    text += column(std::to_string(b), 6, true) + column(std::to_string(one.bytes()), 13, true) + "  " +
            column(name_of(one.type), 9, false) + (chosen ? column(name_of(how), 11, false) : "") +
            (strategies.empty() ? "" : column(strategies[b], widest + 2, false));
    const std::size_t shown = std::min<std::size_t>(one.slots.size(), 4);
    for (std::size_t i = 0; i < shown; ++i) text += (i > 0 ? ", " : "") + parameters[one.slots[i].parameter].name();
    if (one.slots.size() > shown) text += ", and " + std::to_string(one.slots.size() - shown) + " more";
    text += '\n';
  }
  return text;
}

}  // namespace gradsync
