// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// What a rank asks of its peers in one collective, as far as all of them must ask the same: the call, the number of elements, their type.
///
///     check_alike({call_of(reduce_op::sum), 3, dtype::int32}, theirs, "rank 2", here);   // mismatch_error in words
#pragma once

#include <cstddef>
#include <string>

#include "gradsync/core/dtype.hpp"
#include "gradsync/core/error.hpp"
#include "gradsync/core/reduce_op.hpp"

namespace gradsync::detail {

// What stands in contribution::call.
constexpr int call_of(reduce_op op) { return 1 + static_cast<int>(op); }
inline constexpr int call_of_barrier = 4, call_of_split = 5, call_of_reduce_scatter = 6, call_of_all_gather = 7;
constexpr int call_of_broadcast(int root) { return 16 + root; }
inline std::string name_of_call(int call) {
  if (call >= call_of_broadcast(0)) return "broadcast from rank " + std::to_string(call - call_of_broadcast(0));
  constexpr const char* names[] = {"for the mean of gradients", "all_reduce(sum)", "all_reduce(min)",
                                   "all_reduce(max)",           "barrier",         "split",
                                   "reduce_scatter",            "all_gather"};
  return names[call];
}

struct request {
  int call = 0;
  std::size_t count = 0;
  dtype type = dtype::float32;

  friend constexpr bool operator==(const request&, const request&) = default;
};

/// `mismatch_error` if a peer of that name has asked for something else.
inline void check_alike(const request& ours, const request& theirs, const std::string& peer, const place& here) {
  if (theirs == ours) return;
  if (theirs.call != ours.call)
    throw mismatch_error(peer + " calls " + name_of_call(theirs.call) + ", this rank " + name_of_call(ours.call) +
                             "; make the same calls in the same order on every rank",
                         here);
  const auto text = [](const request& r) { return std::to_string(r.count) + " elements of " + name_of(r.type); };
  throw mismatch_error(
      peer + " has " + text(theirs) + ", this rank has " + text(ours) + "; make the same calls with the same lengths on every rank", here);
}

/// `usage_error` for a root that is no rank.
inline void expect_root(int root, int size, const place& here) {
  if (root < 0 || root >= size) throw usage_error("broadcast from rank " + std::to_string(root) + " of " + std::to_string(size), here);
}

/// `mismatch_error`: the peer walks another program than this rank.
[[noreturn]] inline void throw_other_strategy(const std::string& peer, const std::string& ours, const place& here) {
  throw mismatch_error(peer + " does not run " + ours + "; give every rank the same strategy", here);
}

}  // namespace gradsync::detail
