// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// What a rank says when it has waited for a peer in vain.
#pragma once

#include <chrono>
#include <string>

#include "gradsync/core/deadline.hpp"
#include "gradsync/core/error.hpp"

namespace gradsync::detail {

[[noreturn]] inline void throw_gone(const std::string& peer, const place& here) {
  throw transport_error(peer + " has returned from its function and takes no part any more", here);
}

inline constexpr const char* waits_in_turn = "; it waits for this rank: make the same calls in the same order on every rank";

/// `more` is `waits_in_turn` if the late rank itself waits for this one.
[[noreturn]] inline void throw_late(const std::string& peer, std::chrono::nanoseconds limit, const place& here, const char* more = "") {
  const std::string text = deadline{.how = deadline::kind::until, .at = {}, .limit = limit}.text();
  throw timeout_error(peer + " did not come before the deadline of " + text + more, here);
}

}  // namespace gradsync::detail
