// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// What an all-reduce of a user's own values does with them. Gradients are always summed; their mean is a division of its own.
#pragma once

#include <cstdint>

namespace gradsync {

enum class reduce_op : std::uint8_t { sum, min, max };

template <reduce_op Op, class T>
constexpr T apply(T a, T b) {
  if constexpr (Op == reduce_op::sum) return static_cast<T>(a + b);
  else if constexpr (Op == reduce_op::min) return b < a ? b : a;
  else return a < b ? b : a;
}

}  // namespace gradsync
