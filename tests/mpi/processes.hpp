// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// Runs laws of transports on the processes of an MPI job, whose main is tests/mpi/main.cpp.
///
///     gradsync::laws::mean_laws(gradsync::laws::over_processes);   // for each number of ranks up to those that there are
#pragma once

#include <stdexcept>
#include <string>

#include "gradsync/comm/mpi.hpp"
#include "tests/laws/transport_laws.hpp"

namespace gradsync::laws {

/// All processes of the job.
mpi_group& processes();

/// `body(comm)` on the first `size` processes; nothing if there are not so many. Throws what the first failing rank threw, as far as a
/// process can know that of another.
inline const auto over_processes = [](int size, auto body) {
  if (size > processes().size()) return;
  try {
    processes().run([&](auto& all) {
      auto part = all.split(all.rank() < size ? 0 : 1);
      if (all.rank() < size) body(part);
    });
  } catch (const transport_error& e) {
    const std::string told = e.what();
    const auto says = [&](const char* part) { return told.find(part) != told.npos; };
    if (says("failed: the batch is not a number")) throw std::domain_error("the batch is not a number");
    if (says("of a type that gradsync does not know")) throw no_exception_of_ours{};
    throw;
  }
};

}  // namespace gradsync::laws
