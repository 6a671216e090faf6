// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// What an all-reduce of a user's own values does with them. Gradients are always summed; their mean is a division of its own.
#pragma once

#include <cstdint>
#include <type_traits>

namespace gradsync {

enum class reduce_op : std::uint8_t { sum, min, max };

/// a, combined with b. A NaN is the minimum and the maximum, whichever side it stands on: a loss that diverged on one rank is seen on all.
template <reduce_op Op, class T>
constexpr T apply(T a, T b) {
  if constexpr (Op != reduce_op::sum && std::is_floating_point_v<T>) {
    if (a != a) return a;
    if (b != b) return b;
  }
  if constexpr (Op == reduce_op::sum) return static_cast<T>(a + b);
  else if constexpr (Op == reduce_op::min) return b < a ? b : a;
  else return a < b ? b : a;
}

}  // namespace gradsync
