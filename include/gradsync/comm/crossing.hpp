// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// What the ranks of a thread group share about one channel: for each rank where its buffers and its scratch are, how many it has posted,
/// and how far it has come.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "gradsync/comm/flag.hpp"
#include "gradsync/comm/transport.hpp"
#include "gradsync/core/aligned_bytes.hpp"
#include "gradsync/core/series.hpp"

namespace gradsync::detail {

// What a rank has lent. Its extents may be looked at in a pass only: afterwards a rank that fails takes them away.
struct alignas(64) posting {
  contribution lent;
  std::size_t count = 0;
  extent scratch = {};  // the second place of some of the buffer's elements
};

// One rank's lines in a channel. Only that rank raises the flags; everybody reads them.
struct lane {
  flag posted, progress;
  alignas(128) std::atomic<std::uint32_t> inside{0};  // passes under way in peers' memory
  alignas(128) series<posting> posts;                 // a ring of slots, filled by the owner; read by all, so on a line of its own
  series<aligned_bytes> scratch;                      // the owner's, for half as many; here, so that it outlives a peer's last look at it
};

struct crossing {
  explicit crossing(int size) : lanes(static_cast<std::size_t>(size)) {}
  series<lane> lanes;
};

}  // namespace gradsync::detail
