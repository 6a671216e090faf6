// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// A whole of which each rank has a part, for reduce_scatter and all_gather: size() equal parts, by rank, in one contiguous stretch.
///
/// The part lies elsewhere, or at its own place in the whole.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "gradsync/core/buffer_view.hpp"
#include "gradsync/core/dtype.hpp"
#include "gradsync/core/error.hpp"

namespace gradsync::detail {

struct whole_and_part {
  extent all, part;
};

/// `usage_error` unless the two are contiguous, of one type, fit together, and overlap nowhere but at the part's own place.
inline whole_and_part expect_parts(const char* call, const buffer_view& all, const buffer_view& part, int size, const place& here) {
  const auto refuse = [&](const std::string& why) { throw usage_error(std::string(call) + ": " + why, here); };
  const auto text = [](const buffer_view& v) { return std::to_string(v.count()) + " elements of " + name_of(v.type); };
  if (all.extents.size() > 1 || part.extents.size() > 1) refuse("whole and part must lie in one piece each");
  if (all.type != part.type || all.count() != part.count() * static_cast<std::size_t>(size))
    refuse("the whole has " + text(all) + " and the part " + text(part) + "; the whole must have " + std::to_string(size) +
           " times as many, of the same type");
  if (part.count() == 0) return {};
  const extent &a = all.extents[0], &b = part.extents[0];
  const auto begin = reinterpret_cast<std::uintptr_t>(a.data), at = reinterpret_cast<std::uintptr_t>(b.data);
  const bool apart = at + part.bytes() <= begin || begin + all.bytes() <= at;
  if (!apart && at != begin + static_cast<std::size_t>(here.rank) * part.bytes())
    refuse("the part overlaps the whole; it may lie apart, or at this rank's own place in it");
  return {a, b};
}

}  // namespace gradsync::detail
