// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// A call that may hang, such as those that make and end NCCL's communicators, which know no deadline.
///
///     if (!ends_within(std::chrono::seconds(10), [comm] { ncclCommDestroy(comm); })) std::cerr << "it is left behind";
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

namespace gradsync::detail {

/// Calls `f()` on a thread of its own. False if it has not ended within `limit`: it is then left behind, with all that it holds.
template <class F>
bool ends_within(std::chrono::nanoseconds limit, F f) {
  struct outcome {
    std::mutex mutex;
    std::condition_variable changed;
    bool ended = false;
  };
  const auto shared = std::make_shared<outcome>();
  std::thread([shared, f]() mutable {
    f();
    const std::lock_guard hold(shared->mutex);
    shared->ended = true;
    shared->changed.notify_all();
  }).detach();
  std::unique_lock hold(shared->mutex);
  return shared->changed.wait_for(hold, std::min<std::chrono::nanoseconds>(limit, std::chrono::hours(24)), [&] { return shared->ended; });
}

}  // namespace gradsync::detail
