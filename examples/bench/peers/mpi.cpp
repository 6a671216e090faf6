// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

// MPI_Allreduce, of whichever MPI `peers` compiles this with.
#include <mpi.h>

#include "examples/bench/peers/serve.hpp"

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0, size = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  bench::serve(
      argv[1], rank, size,
      [](float* at, std::size_t n) { MPI_Allreduce(MPI_IN_PLACE, at, static_cast<int>(n), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD); },
      [] { MPI_Barrier(MPI_COMM_WORLD); });
  MPI_Finalize();
}
