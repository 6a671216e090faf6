// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// What the library's arithmetic must come to, element by element; written without the library on purpose. Every product and sum goes
/// through memory, so that no compiler fuses two of them, whatever processor it builds for.
///
///     CHECK(to[i] == quotient(tree_of<float>([&](int rank) { return product(x[rank], w[rank]); }, plus<float>, 0, ranks), total));
#pragma once

namespace gradsync::laws {

template <class T>
T stored(T x) {
  volatile T there = x;
  return there;
}

/// x · weight, rounded once: in double, where the weight is not exact in T.
template <class T>
T product(T x, double weight) {
  const T narrow = static_cast<T>(weight);
  if (static_cast<double>(narrow) == weight) return stored(stored(x) * narrow);
  return stored(static_cast<T>(stored(static_cast<double>(x) * weight)));
}

/// x / Σw; +0 where nobody contributed. The division rounds once, so going through double changes nothing.
template <class T>
T quotient(T x, double total) {
  return total == 0 ? T{} : stored(static_cast<T>(stored(static_cast<double>(x)) / total));
}

template <class T>
T plus(T a, T b) {
  return static_cast<T>(a + b);
}

/// Terms first .. first+count-1 added (or whatever `add` does) in the canonical tree.
template <class T, class Leaf, class Add>
T tree_of(const Leaf& leaf, const Add& add, int first, int count) {
  if (count == 1) return leaf(first);
  int left = 1;
  while (2 * left < count) left *= 2;
  const T a = tree_of<T>(leaf, add, first, left), b = tree_of<T>(leaf, add, first + left, count - left);
  return stored(add(a, b));
}

}  // namespace gradsync::laws
