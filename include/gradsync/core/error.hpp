// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// What gradsync throws, and how its messages read.
///
/// Every message names the place it speaks of, as far as that is known:
///     gradsync[rank 2] step 17 bucket 3 "fc1.weight": got 512 elements, rank 0 has 1024; build the model in the same order on every rank
/// A `transport_error` or `timeout_error` leaves the values of the model as they were: start a new group and go on from there.
///
///     try { sync.finish(); } catch (const gradsync::timeout_error& e) { std::cerr << e.what() << '\n'; }
#pragma once

#include <cstdint>    // steps are counted in 64 bits
#include <exception>  // the base of every error
#include <string>     // messages and parameter paths
#include <utility>

namespace gradsync {

/// Where an error happened. What is unknown, or does not apply, stays at its default.
struct place {
  int rank = -1;
  std::int64_t step = -1;
  int bucket = -1;
  std::string parameter{};
  int whole = -1;  ///< the same rank in the whole group, where `rank` counts in a part of it and the numbers differ
};

/// "rank 1"; "rank 1 (rank 5 of the whole group)" where `whole` is known.
inline std::string name_of_rank(int rank, int whole) {
  const std::string name = "rank " + std::to_string(rank);
  return whole < 0 ? name : name + " (rank " + std::to_string(whole) + " of the whole group)";
}

/// The base of all errors of the library.
class error : public std::exception {
 public:
  explicit error(std::string message, place where = {}) : message_(std::move(message)), where_(std::move(where)) { compose(); }

  const char* what() const noexcept override { return text_.c_str(); }
  const std::string& message() const noexcept { return message_; }
  const place& where() const noexcept { return where_; }

  /// Adds what the thrower could not know; what is already known stays.
  void locate(const place& wider) {
    if (where_.rank < 0) where_.rank = wider.rank;
    if (where_.rank == wider.rank && where_.whole < 0) where_.whole = wider.whole;
    if (where_.step < 0) where_.step = wider.step;
    if (where_.bucket < 0) where_.bucket = wider.bucket;
    if (where_.parameter.empty()) where_.parameter = wider.parameter;
    compose();
  }

 private:
  void compose() {
    text_ = where_.rank >= 0 ? "gradsync[" + name_of_rank(where_.rank, where_.whole) + "]" : "gradsync";
    if (where_.step >= 0) text_ += " step " + std::to_string(where_.step);
    if (where_.bucket >= 0) text_ += " bucket " + std::to_string(where_.bucket);
    if (!where_.parameter.empty()) text_ += " \"" + where_.parameter + "\"";
    text_ += ": " + message_;
  }

  std::string message_, text_;
  place where_;
};

/// Your call was wrong; nothing was changed by it.
struct usage_error : error {
  using error::error;
};

/// The ranks do not agree on the model, the plan, the options or the call.
struct mismatch_error : error {
  using error::error;
};

/// A peer failed or left. Recoverable with a new group.
struct transport_error : error {
  using error::error;
};

/// A peer was later than the deadline. Recoverable with a new group.
struct timeout_error : error {
  using error::error;
};

/// What `f()` returns. An error that it throws is told its place, `where()`, as far as it does not know it.
template <class Where, class F>
decltype(auto) locating(Where&& where, F&& f) {
  try {
    return f();
  } catch (error& e) {
    e.locate(where());
    throw;
  }
}

}  // namespace gradsync
