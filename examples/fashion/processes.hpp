// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// Ranks that are processes: of an MPI job (`mpirun -np 4 train_fashion`) where the program was built with MPI, else of one host
/// (`torchrun --no_python --nproc_per_node 4 train_fashion`, or by hand).
#pragma once

#include <optional>

#include "examples/fashion/options.hpp"
#include "examples/fashion/report.hpp"
#include "examples/fashion/train.hpp"

namespace fashion {

/// Trains with the processes that a launcher has started, one replica each; rank 0 alone shows something. Nothing if this process was
/// started by itself: then `train` is what to call. Throws what `train` throws, and what the group throws.
std::optional<training_result> train_over_processes(const options& chosen, report& show);

/// The same over MPI; nothing where the program was built without: mpi/mpi.cpp, or mpi/none.cpp.
std::optional<training_result> train_over_mpi(const options& chosen, report& show);

}  // namespace fashion
