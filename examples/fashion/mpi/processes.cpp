// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

#include "examples/fashion/processes.hpp"

#include <exception>
#include <fstream>
#include <stdexcept>
#include <string>

#include "examples/fashion/replica.hpp"
#include "examples/fashion/strategies_table.hpp"
#include "gradsync/comm/launch.hpp"
#include "gradsync/comm/mpi.hpp"

namespace fashion {

template gradsync::collective<gradsync::mpi_communicator> named_strategy(const std::string& name, gradsync::mpi_communicator& comm);

std::optional<training_result> train_over_processes(const options& asked, report& show) {
  const gradsync::launch me = gradsync::find_launch();
  if (me.size == 1) return std::nullopt;
  if (me.launcher == "torchrun") throw std::runtime_error(describe(me) + ": start this program by mpirun, or alone with --ranks");
  gradsync::mpi_group ranks;
  options chosen = asked;
  chosen.ranks = ranks.size();
  const bool speaks = ranks.rank() == 0;
  if (!speaks) chosen.metrics.clear(), chosen.trace.clear();
  const dataset data = read_dataset(chosen.data);
  metrics_file metrics{chosen.metrics};
  std::ofstream trace;
  job shared{chosen, data, pixel_scale{data.train}, show, metrics, {}, {}};
  if (!chosen.trace.empty()) {  // of rank 0 alone
    trace = open_output("--trace", chosen.trace);
    shared.recorders.emplace_back(0);
  }
  if (speaks) show.say(headline(chosen, data));
  try {
    ranks.run([&](auto& comm) { train_rank(shared, comm); });
  } catch (const std::exception&) {  // run() has said it
    return training_result{};
  }
  if (trace.is_open() && !(trace << gradsync::chrome_trace(shared.recorders) << std::flush))
    throw std::runtime_error{"--trace: " + chosen.trace + " could not be written to its end"};
  if (!speaks) shared.result.replicas_agree = true;  // rank 0 tells
  return shared.result;
}

}  // namespace fashion
