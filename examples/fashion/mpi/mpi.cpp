// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

#include "gradsync/comm/mpi.hpp"

#include <exception>

#include "examples/fashion/over_group.hpp"
#include "examples/fashion/processes.hpp"
#include "examples/fashion/strategies_table.hpp"

namespace fashion {

template gradsync::collective<gradsync::mpi_communicator> named_strategy(const std::string& name, gradsync::mpi_communicator& comm);

std::optional<training_result> train_over_mpi(const options& chosen, report& show) {
  gradsync::mpi_group ranks;
  try {
    return train_over(ranks, chosen, show);
  } catch (const gradsync::error&) {  // run() has said it
    return training_result{};
  }
}

}  // namespace fashion
