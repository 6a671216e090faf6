// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// Training by a group of which this process is one rank: gradsync::mpi_group or gradsync::process_group.
#pragma once

#include <fstream>
#include <stdexcept>
#include <string>

#include "examples/fashion/replica.hpp"
#include "examples/fashion/train.hpp"

namespace fashion {

/// Rank 0 alone shows something. Throws what `train` throws, and what `ranks.run` throws.
template <class Group>
training_result train_over(Group& ranks, const options& asked, report& show) {
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
  ranks.run([&](auto& comm) { train_rank(shared, comm); });
  if (trace.is_open() && !(trace << gradsync::chrome_trace(shared.recorders) << std::flush))
    throw std::runtime_error{"--trace: " + chosen.trace + " could not be written to its end"};
  if (!speaks) shared.result.replicas_agree = true;  // rank 0 tells
  return shared.result;
}

}  // namespace fashion
