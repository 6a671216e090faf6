// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// Merges the entries of one parameter that stands in a model under several names: one value and one gradient, hence one entry.
///
/// Parameters are compared with their neighbours in the order of their addresses: n log n. `usage_error` for half a tie: a value that is
/// shared while its gradient is not, or memory that is shared in part.
///
///     series<parameter> once = merge_tied(std::move(all));   // "encoder", with the alias "decoder"
#pragma once

#include <algorithm>  // the order of addresses
#include <cstddef>    // indices
#include <utility>    // moves

#include "gradsync/core/error.hpp"
#include "gradsync/core/series.hpp"
#include "gradsync/model/parameter.hpp"

namespace gradsync::detail {

inline bool overlap(const memory& a, std::size_t a_bytes, const memory& b, std::size_t b_bytes) {
  return a.count > 0 && b.count > 0 && a.data < b.data + b_bytes && b.data < a.data + a_bytes;
}

// Whether `b`, whose value begins where that of `a` does, is the same parameter under another name. Throws `usage_error` for half a tie.
inline bool is_tied(const parameter& a, const parameter& b) {
  const memory value = a.value(), other = b.value(), grad = a.grad(), other_grad = b.grad();
  const bool one_value = value.data == other.data && a.count == b.count && a.type == b.type && a.count > 0;
  const bool one_grad = a.aliases.front().grad == b.aliases.front().grad || (grad.count > 0 && grad.data == other_grad.data);
  if (one_value && one_grad) return true;
  if (one_value)
    throw usage_error("shares its value with \"" + a.name() + "\", but not its gradient; let both names share the gradient too",
                      {.parameter = b.name()});
  if (overlap(value, a.bytes(), other, b.bytes()))
    throw usage_error("its value overlaps that of \"" + a.name() + "\"; a parameter is shared as a whole or not at all",
                      {.parameter = b.name()});
  if (overlap(grad, grad.count * size_of(a.type), other_grad, other_grad.count * size_of(b.type)))
    throw usage_error("its gradient overlaps that of \"" + a.name() + "\"; give each parameter its own", {.parameter = b.name()});
  return false;
}

// Finds parameters whose memory overlaps, `memory_of` being their values or their gradients: neighbours in the order of addresses.
inline void find_ties(series_view<parameter> all, series<std::size_t>& tied_to, memory (*memory_of)(const parameter&)) {
  series<std::size_t> order;
  for (std::size_t i = 0; i < all.size(); ++i)
    if (memory_of(all[i]).count > 0) order.push_back(i);
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    const std::byte *x = memory_of(all[a]).data, *y = memory_of(all[b]).data;
    return x != y ? x < y : a < b;
  });
  auto end = [&](std::size_t i) { return memory_of(all[i]).data + memory_of(all[i]).count * size_of(all[i].type); };
  for (std::size_t k = 1, farthest = 0; k < order.size(); ++k) {
    const std::size_t before = order[farthest], here = order[k];
    if (memory_of(all[here]).data < end(before) && is_tied(all[std::min(before, here)], all[std::max(before, here)]))
      tied_to[std::max(before, here)] = tied_to[std::min(before, here)];
    if (end(here) > end(before)) farthest = k;
  }
}

// One entry for each parameter, with all of its names.
inline series<parameter> merge_tied(series<parameter> all) {
  series<std::size_t> tied_to(all.size());
  for (std::size_t i = 0; i < all.size(); ++i) tied_to[i] = i;
  find_ties(all, tied_to, [](const parameter& p) { return p.value(); });
  find_ties(all, tied_to, [](const parameter& p) { return p.grad(); });
  series<parameter> merged;
  series<std::size_t> place(all.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    place[i] = tied_to[i] == i ? merged.size() : place[tied_to[i]];
    if (tied_to[i] == i) merged.push_back(std::move(all[i]));
    else merged[place[i]].aliases.push_back(all[i].aliases.front());
  }
  return merged;
}

}  // namespace gradsync::detail
