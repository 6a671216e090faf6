// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// Runs laws of transports on the processes of an MPI job, whose main is tests/mpi/main.cpp.
///
///     gradsync::laws::mean_laws(gradsync::laws::over_processes);   // for each number of ranks up to those that there are
#pragma once

#include "gradsync/comm/mpi.hpp"
#include "tests/laws/told.hpp"

namespace gradsync::laws {

/// All processes of the job.
mpi_group& processes();

/// `body(comm)` on the first `size` processes; nothing if there are not so many. Throws what the first failing rank threw, as far as a
/// process can know that of another.
inline const auto over_processes = [](int size, auto body) {
  if (size > processes().size()) return;
  as_thrown([&] {
    processes().run([&](auto& all) {
      auto part = all.split(all.rank() < size ? 0 : 1);
      if (all.rank() < size) body(part);
    });
  });
};

}  // namespace gradsync::laws
