// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// Do all ranks mean the same? Each rank describes its model, plan, options and compile flags in lines; the first line in which a rank
/// differs from rank 0 ends all ranks with one `mismatch_error` that names the rank, the parameter and both sides.
#pragma once

#include <cfloat>  // how expressions are evaluated
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gradsync/comm/transport.hpp"
#include "gradsync/core/error.hpp"
#include "gradsync/core/reduce_op.hpp"

namespace gradsync {

/// One thing that must be the same everywhere.
struct agreement {
  std::string subject;  ///< what it is: "bucket_bytes", or a parameter's path
  std::string detail;   ///< how it is here: "1024 elements of float32"
  std::string advice;   ///< what to do about a difference
  bool parameter = false;
};

/// Compile flags that change bits: they decide how products and sums are rounded.
inline agreement compile_flags() {
  std::string flags = "FLT_EVAL_METHOD " + std::to_string(FLT_EVAL_METHOD);
#ifdef __FMA__
  flags += ", FMA";
#endif
#ifdef __clang__
  flags += ", clang " + std::to_string(__clang_major__);
#elif defined(__GNUC__)
  flags += ", gcc " + std::to_string(__GNUC__);
#endif
#ifdef __OPTIMIZE__
  flags += ", optimized";
#endif
  return {"compile flags", flags, "build the same program for every rank", false};
}

namespace detail {

inline std::string encode(std::span<const agreement> items) {
  std::string text;
  for (const agreement& a : items) text += a.subject + '\t' + a.detail + '\n';
  return text;
}

template <transport Communicator>
std::string broadcast_text(Communicator& comm, std::string text, int root) {
  text.resize(comm.broadcast(static_cast<std::uint64_t>(text.size()), root));
  comm.broadcast(std::span<char>(text.data(), text.size()), root);
  return text;
}

// The n-th line's two halves.
inline std::pair<std::string, std::string> line(const std::string& text, std::size_t n) {
  std::size_t begin = 0;
  for (; n > 0 && begin < text.size(); --n) begin = text.find('\n', begin) + 1;
  if (begin >= text.size()) return {};
  const std::string_view one = std::string_view(text).substr(begin, text.find('\n', begin) - begin);
  const std::size_t tab = one.find('\t');
  return {std::string(one.substr(0, tab)), std::string(one.substr(tab + 1))};
}

inline std::string difference(std::span<const agreement> mine, const std::string& first_rank) {
  for (std::size_t i = 0;; ++i) {
    const auto [subject, detail] = line(first_rank, i);
    if (i < mine.size() && mine[i].subject == subject && mine[i].detail == detail) continue;
    if (i == mine.size()) return "\tends where rank 0 goes on with \"" + subject + "\"; build the model in the same order on every rank";
    const agreement& a = mine[i];
    const std::string name = a.parameter ? a.subject : "";
    if (a.subject == subject)
      return name + "\t" + (a.parameter ? "has " : a.subject + " is ") + a.detail + ", rank 0 has " + detail + "; " + a.advice;
    return name + "\tstands where rank 0 has \"" + subject + "\"; " + a.advice;
  }
}

}  // namespace detail

/// Compares the lists of all ranks; blocks. `mismatch_error` on every rank if any two differ.
template <transport Communicator>
void check_agreement(Communicator& comm, std::span<const agreement> items) {
  const std::string mine = detail::encode(items);
  const std::string rank0 = detail::broadcast_text(comm, mine, 0);
  const int first = comm.all_reduce(mine == rank0 ? comm.size() : comm.rank(), reduce_op::min);
  if (first == comm.size()) return;
  const std::string text = detail::broadcast_text(comm, comm.rank() == first ? detail::difference(items, rank0) : std::string{}, first);
  const std::size_t tab = text.find('\t');
  throw mismatch_error(text.substr(tab + 1), {.rank = first, .step = -1, .bucket = -1, .parameter = text.substr(0, tab)});
}

}  // namespace gradsync
