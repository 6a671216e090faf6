// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// Whether a rank's communication is driven by a thread of its own.
///
/// It is where each rank and each such thread find a processor, or where the user asks for it; never where the device drives itself, or the
/// transport belongs to the rank's own thread: there `progress::thread` is a `usage_error`.
///
///     if (wants_driver(comm, options.progress)) driver = std::thread(…);
#pragma once

#include <string>

#include "gradsync/comm/transport.hpp"
#include "gradsync/core/affinity.hpp"
#include "gradsync/core/error.hpp"
#include "gradsync/sync/options.hpp"

namespace gradsync {

template <transport Communicator>
bool wants_driver(const Communicator& comm, progress how) {
  const char* refused = nullptr;
  if constexpr (stream_of<Communicator>::asynchronous) refused = "the device drives its collectives itself";
  if constexpr (requires { comm.allows_driver_thread(); })
    if (!comm.allows_driver_thread()) refused = "only the rank's own thread may use its transport";
  if (refused != nullptr && how == progress::thread)
    throw usage_error(std::string("progress::thread is not to be had here: ") + refused + "; leave it at progress::automatic",
                      place_of(comm, comm.rank()));
  if (refused != nullptr || how == progress::at_marks || comm.size() == 1) return false;
  return how == progress::thread || 2 * comm.size() <= usable_cpus();
}

/// The same options, unless such a thread is asked for where there can be none: before anything is made for it.
template <transport Communicator>
const synchronizer_options& expect_driver(const Communicator& comm, const synchronizer_options& options) {
  static_cast<void>(wants_driver(comm, options.progress));
  return options;
}

}  // namespace gradsync
