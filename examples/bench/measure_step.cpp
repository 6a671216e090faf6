// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "examples/bench/statistics.hpp"
#include "examples/bench/trainee.hpp"
#include "examples/bench/training.hpp"

namespace bench {
namespace {

using gradsync::accumulation_mode, gradsync::layout, gradsync::micro_step, gradsync::thread_communicator;

// A way to make the same step.
struct kind {
  const char* name;
  bool alone;
  gradsync::layout layout = layout::automatic;
  accumulation_mode accumulation = accumulation_mode::tree;
};

std::vector<kind> kinds_of(const training_options& chosen) {
  if (chosen.micro_steps > 1)
    return {{"alone", true}, {"in place, plain", false, layout::in_place, accumulation_mode::plain}, {"in place, tree", false}};
  return {{"alone", true}, {"in place", false, layout::in_place}, {"packed", false, layout::packed}};
}

// One rank. All kinds train one model, whose numbers do not matter here.
class stepper {
 public:
  using synchronizer = gradsync::synchronizer<perceptron, thread_communicator>;

  stepper(thread_communicator& comm, const training_options& chosen, const fashion::dataset& data, const std::vector<kind>& kinds)
      : micro_steps_(chosen.micro_steps), net_(make_perceptron(data.train.pixels_per_image(), chosen.hidden, chosen.seed)),
        optimizer_(net_, {.learning_rate = 1e-4}) {
    std::vector<std::uint32_t> indices(chosen.batch);
    for (std::size_t i = 0; i < indices.size(); ++i) indices[i] = static_cast<std::uint32_t>(i % data.train.count);
    examples_.gather(data.train, indices, fashion::pixel_scale{data.train});
    for (const kind& k : kinds)
      syncs_.push_back(k.alone ? nullptr
                               : std::make_unique<synchronizer>(net_, fashion::named_strategy(chosen.strategy, comm),
                                                                gradsync::synchronizer_options{.bucket_bytes = chosen.bucket_bytes,
                                                                                               .layout = k.layout,
                                                                                               .progress = chosen.progress,
                                                                                               .accumulation = k.accumulation}));
  }

  // Seconds of one update.
  double step(const std::vector<kind>& kinds, std::size_t which) {
    synchronizer* const sync = syncs_[which].get();
    const bool adds = kinds[which].alone || kinds[which].accumulation == accumulation_mode::plain;
    const double begin = seconds_now();
    for (std::size_t m = 0; m < micro_steps_; ++m) {
      if (sync != nullptr)
        sync->begin({.weight = examples_.size(), .micro_step = m + 1 < micro_steps_ ? micro_step::more : micro_step::last});
      passes_.run(net_, examples_.inputs, examples_.labels, m > 0 && adds ? gradients::added_to : gradients::overwritten, [&](auto& layer) {
        if (sync != nullptr) sync->mark_ready(layer);
      });
      if (sync != nullptr) sync->finish();
    }
    optimizer_.step();
    return seconds_now() - begin;
  }

 private:
  std::size_t micro_steps_;
  perceptron net_;
  gradsync::sgd optimizer_;
  fashion::batch examples_;
  passes passes_;
  std::vector<std::unique_ptr<synchronizer>> syncs_;
};

}  // namespace

training_outcome measure_step(const training_options& chosen) {
  const fashion::dataset data = data_for(chosen, chosen.batch);
  const std::vector<kind> kinds = kinds_of(chosen);
  const auto ranks = static_cast<std::size_t>(chosen.ranks);
  std::vector<samples> each(kinds.size()), slowest(kinds.size());  // every rank's steps, and the slowest rank's of each
  std::vector<std::vector<double>> steps(ranks);                   // of a sample, by rank
  gradsync::thread_group{chosen.ranks}.run([&](auto& comm) {
    // Not where a driver thread needs a CPU of its own.
    if (2 * ranks > cpus_at_start().size() && chosen.progress != gradsync::progress::thread) pin_to(comm.rank());
    std::optional<placement_probe> probe;
    if (comm.rank() == 0) probe.emplace();
    stepper one{comm, chosen, data, kinds};
    for (int repeat = -1; repeat < chosen.repeats; ++repeat)  // the first one warms up
      for (std::size_t k = 0; k < kinds.size(); ++k) {
        const double before = probe ? probe->round_trip_ns() : 0;
        std::vector<double>& mine = steps[static_cast<std::size_t>(comm.rank())];
        mine.clear();
        comm.barrier();
        for (std::size_t u = 0; u < (repeat < 0 ? 2 : chosen.updates); ++u) mine.push_back(one.step(kinds, k));
        comm.barrier();
        if (repeat >= 0 && probe) {
          const placement where = placement_between(before, probe->round_trip_ns());
          for (std::size_t u = 0; u < chosen.updates; ++u) {
            double most = 0;
            for (const auto& of : steps) each[k].add(where, of[u]), most = std::max(most, of[u]);
            slowest[k].add(where, most);
          }
        }
        comm.barrier();
      }
  });

  training_outcome seen{
      table{{{"step"}, {"placement"}, {"steps"}, {"each rank", "ms"}, {"of alone"}, {"slowest rank", "ms"}, {"of alone, slowest"}}},
      {"a step, of the same step alone", "each way", "ratio", false, false, {}}};
  for (const placement where : labels) {
    const std::size_t alone = slowest[0].at(where).size();
    line ratios{name_of(where), {}};
    for (std::size_t k = 0; k < kinds.size() && alone > 0; ++k) {
      if (slowest[k].at(where).empty()) continue;
      const double ratio = each[k].median(where) / each[0].median(where);
      seen.rows.add({std::string(kinds[k].name), std::string(name_of(where)), static_cast<std::int64_t>(slowest[k].at(where).size()),
                     1e3 * each[k].median(where), ratio, 1e3 * slowest[k].median(where),
                     slowest[k].median(where) / slowest[0].median(where)});
      ratios.points.push_back({static_cast<double>(k), ratio});
    }
    if (!ratios.points.empty()) seen.drawn.lines.push_back(ratios);
  }
  return seen;
}

}  // namespace bench
