// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// How many CPUs this process may use: of its affinity mask, not of the machine.
#pragma once

#include <thread>

#if defined(__linux__)
#include <sched.h>
#endif

namespace gradsync {

inline int usable_cpus() {
#if defined(__linux__)
  cpu_set_t mask;
  if (sched_getaffinity(0, sizeof mask, &mask) == 0) return CPU_COUNT(&mask);
#endif
  const unsigned cpus = std::thread::hardware_concurrency();
  return cpus > 0 ? static_cast<int>(cpus) : 1;
}

}  // namespace gradsync
