// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// How long to wait for a peer: not at all, until a point in time, or as long as it takes.
///
/// Time is read through a function pointer, so that tests can put a clock of their own in its place.
#pragma once

#include <chrono>
#include <string>  // limits in messages

namespace gradsync {

/// Reads the time. The default is the steady clock.
using clock_source = std::chrono::steady_clock::time_point (*)();

struct deadline {
  enum class kind : unsigned char { poll, within, until, never };
  mutable kind how = kind::poll;
  mutable std::chrono::steady_clock::time_point at{};
  std::chrono::nanoseconds limit{};  ///< from which `at` was computed, for messages

  static constexpr deadline poll() { return {}; }
  static constexpr deadline never() { return {kind::never, {}, {}}; }
  /// A limit beyond the end of time (`nanoseconds::max()`) never passes.
  static deadline after(std::chrono::nanoseconds limit, clock_source now = std::chrono::steady_clock::now) {
    const auto begin = now();
    if (limit > begin.max() - begin) return never();
    return {kind::until, begin + std::chrono::duration_cast<std::chrono::steady_clock::duration>(limit), limit};
  }

  /// The same from the first look at the clock on, which most waits end without: reading the time may take as long as they do. For one
  /// thread.
  static constexpr deadline within(std::chrono::nanoseconds limit) { return {kind::within, {}, limit}; }

  constexpr bool polling() const { return how == kind::poll; }
  bool passed(clock_source now) const {
    if (how == kind::within) {
      const deadline begun = after(limit, now);
      how = begun.how;
      at = begun.at;
    }
    return how == kind::until && now() >= at;
  }

  /// The limit for messages: "600 s", "50 ms".
  std::string text() const {
    if (limit < std::chrono::milliseconds(10)) return std::to_string(limit / std::chrono::microseconds(1)) + " us";
    if (limit < std::chrono::seconds(10)) return std::to_string(limit / std::chrono::milliseconds(1)) + " ms";
    return std::to_string(limit / std::chrono::seconds(1)) + " s";
  }
};

}  // namespace gradsync
