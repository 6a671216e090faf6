// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// A pass through peers' memory, of threads (comm/peers.hpp) or processes (comm/process_peers.hpp). The memory's owners, before they give
/// it up, first fail the group and then wait until `inside` is 0 again in every lane.
///
///     const pass inside(peers);   // throws if the group has failed
#pragma once

#include <atomic>
#include <cstdint>

namespace gradsync::detail {

class pass {
 public:
  template <class Peers>
  explicit pass(const Peers& all) : inside_(all.mine().inside) {
    inside_.store(1, std::memory_order_seq_cst);
    if (!all.failed()) return;
    inside_.store(0, std::memory_order_release);
    all.report();
  }
  ~pass() { inside_.store(0, std::memory_order_release); }
  pass(const pass&) = delete;
  pass& operator=(const pass&) = delete;

 private:
  std::atomic<std::uint32_t>& inside_;
};

}  // namespace gradsync::detail
