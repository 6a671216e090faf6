// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// What the ranks of a thread group share about one channel: for each rank what it has posted, where its scratch is, and how far it has
/// come.
#pragma once

#include <cstddef>

#include "gradsync/comm/flag.hpp"
#include "gradsync/comm/postings.hpp"
#include "gradsync/core/aligned_bytes.hpp"
#include "gradsync/core/series.hpp"

namespace gradsync::detail {

// One rank's part of a channel. The slots are filled by their owner and read by all; the lines of both rows are written once.
struct lane : lane_of_flags<flag_scope::threads> {
  alignas(128) series<slot<flag_scope::threads>> slots;
  series<aligned_bytes> scratch;  // the owner's, for half as many; here, so that it outlives a peer's last look at it
};

struct crossing {
  explicit crossing(int size) : lanes(static_cast<std::size_t>(size)) {}
  series<lane> lanes;
};

}  // namespace gradsync::detail
