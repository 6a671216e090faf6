// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// Ranks that are processes: `mpirun -np 4 train_fashion`. What is built in depends on whether MPI was found: mpi/processes.cpp, or
/// mpi/none.cpp.
#pragma once

#include <optional>

#include "examples/fashion/options.hpp"
#include "examples/fashion/report.hpp"
#include "examples/fashion/train.hpp"

namespace fashion {

/// Trains with the processes that a launcher has started, one replica each; rank 0 alone shows something. Nothing if this process was
/// started by itself: then `train` is what to call. Throws what `train` throws, and std::runtime_error for a launcher whose processes can't
/// find each other.
std::optional<training_result> train_over_processes(const options& chosen, report& show);

}  // namespace fashion
