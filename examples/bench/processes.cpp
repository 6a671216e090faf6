// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

#include "gradsync/comm/processes.hpp"

#include "examples/bench/measure.hpp"
#include "examples/fashion/strategies_table.hpp"
#include "gradsync/comm/launch.hpp"

template gradsync::collective<gradsync::process_communicator> fashion::named_strategy(const std::string& name,
                                                                                      gradsync::process_communicator& comm);

namespace bench {

std::optional<measured> measure_over_processes(const options& chosen) {
  const gradsync::launch me = gradsync::find_launch();
  if (me.size == 1) return std::nullopt;
  const bool by_hand = me.launcher.empty() || me.launcher == "torchrun";  // no MPI would find these processes
  if (!by_hand)
    if (auto over_mpi = measure_over_mpi(chosen)) return over_mpi;
  gradsync::process_group ranks{me};
  measured all{.rank = ranks.rank(), .size = ranks.size(), .transport = "processes", .rows = {}};
  ranks.run([&](auto& comm) { all.rows = measure(comm, chosen); });
  return all;
}

}  // namespace bench
