// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

#include "examples/fashion/train.hpp"

#include <fstream>
#include <stdexcept>
#include <string>

#include "examples/fashion/replica.hpp"

namespace fashion {

training_result train(const options& chosen, report& show) {
  const dataset data = read_dataset(chosen.data);
  metrics_file metrics{chosen.metrics};
  std::ofstream trace;
  job shared{chosen, data, pixel_scale{data.train}, show, metrics, {}, {}};
  if (!chosen.trace.empty()) {
    trace = open_output("--trace", chosen.trace);
    for (int rank = 0; rank < chosen.ranks; ++rank) shared.recorders.emplace_back(rank);
  }
  show.say(headline(chosen, data));
  gradsync::thread_group ranks{chosen.ranks};
  ranks.run([&](auto& comm) { train_rank(shared, comm); });
  if (trace.is_open() && !(trace << gradsync::chrome_trace(shared.recorders) << std::flush))
    throw std::runtime_error{"--trace: " + chosen.trace + " could not be written to its end"};
  return shared.result;
}

}  // namespace fashion
