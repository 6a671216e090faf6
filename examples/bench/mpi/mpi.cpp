// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

#include "gradsync/comm/mpi.hpp"

#include "examples/bench/measure.hpp"
#include "examples/fashion/strategies_table.hpp"

template gradsync::collective<gradsync::mpi_communicator> fashion::named_strategy(const std::string& name,
                                                                                  gradsync::mpi_communicator& comm);

namespace bench {

std::optional<measured> measure_over_mpi(const options& chosen) {
  gradsync::mpi_group ranks;
  measured all{.rank = ranks.rank(), .size = ranks.size(), .transport = "mpi", .rows = {}};
  ranks.run([&](auto& comm) { all.rows = measure(comm, chosen); });
  return all;
}

}  // namespace bench
