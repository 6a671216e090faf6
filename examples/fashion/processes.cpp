// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

#include "examples/fashion/processes.hpp"

#include "examples/fashion/over_group.hpp"
#include "examples/fashion/strategies_table.hpp"
#include "gradsync/comm/launch.hpp"
#include "gradsync/comm/processes.hpp"

namespace fashion {

template gradsync::collective<gradsync::process_communicator> named_strategy(const std::string& name, gradsync::process_communicator& comm);

std::optional<training_result> train_over_processes(const options& chosen, report& show) {
  const gradsync::launch me = gradsync::find_launch();
  if (me.size == 1) return std::nullopt;
  const bool by_hand = me.launcher.empty() || me.launcher == "torchrun";  // no MPI would find these processes
  if (!by_hand)
    if (const auto result = train_over_mpi(chosen, show)) return result;
  gradsync::process_group ranks{me};
  return train_over(ranks, chosen, show);
}

}  // namespace fashion
