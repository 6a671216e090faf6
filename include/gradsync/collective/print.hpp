// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// A strategy's rounds as a table, for teaching: who sends which chunks to whom, and what becomes of them there.
///
///     std::cout << print(halving_doubling{}, 2);
///
///     halving_doubling on 2 ranks: 2 chunks, 2 rounds, claims canonical
///     round  from  to  chunks   what
///         0     1   0  0        add, divide
///         0     0   1  1        add, divide
///         1     1   0  1        copy
///         1     0   1  0        copy
///
/// Where chunks lie in scratch, or go there, the line says so.
#pragma once

#include <string>

#include "gradsync/collective/any_strategy.hpp"
#include "gradsync/collective/compile.hpp"
#include "gradsync/collective/placement.hpp"
#include "gradsync/collective/schedule.hpp"
#include "gradsync/core/series.hpp"

namespace gradsync {

namespace detail {

inline std::string right_aligned(int number, std::size_t width) {
  const std::string digits = std::to_string(number);
  return digits.size() < width ? std::string(width - digits.size(), ' ') + digits : digits;
}

inline std::string counted(int n, const char* what) { return std::to_string(n) + " " + what + (n == 1 ? "" : "s"); }

inline std::string line_of(int round, int rank, const operation& op) {
  std::string chunks = std::to_string(op.first);
  if (op.count > 1) chunks += ".." + std::to_string(op.first + op.count - 1);
  if (chunks.size() < 7) chunks.resize(7, ' ');
  std::string what = name_of(op.what);
  if (op.from == region::scratch) what += " from scratch";
  if (op.divides) what += ", divide";
  if (op.to == region::scratch) what += ", into scratch";
  return right_aligned(round, 5) + right_aligned(op.peer, 6) + right_aligned(rank, 4) + "  " + chunks + "  " + what + "\n";
}

}  // namespace detail

/// One line a message, as it is compiled (adjacent chunks together), ending with a line feed each. `s` is one that `verify` accepts.
inline std::string print(const any_strategy& s) {
  const placement places(s);
  series<program> programs;
  for (int rank = 0; rank < s.size; ++rank) programs.push_back(compile(s, rank, places));
  std::string text = s.name;
  text += " on " + detail::counted(s.size, "rank") + ": " + detail::counted(s.chunks, "chunk") + ", ";
  text += detail::counted(s.rounds, "round") + (places.settles() ? " and one to copy home" : "");
  text += std::string(", claims ") + name_of(s.claim) + "\n";
  if (s.rounds > 0) text += "round  from  to  chunks   what\n";
  for (int k = 0; k < programs[0].rounds(); ++k)
    for (const program& p : programs)
      for (const operation& op : p.round(k))
        if (op.what != operation::kind::send) text += detail::line_of(k, p.rank, op);
  return text;
}
template <strategy S>
std::string print(const S& s, int size) {
  return print(erased_strategy<S>(s, size));
}

}  // namespace gradsync
