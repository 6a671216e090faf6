// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

#include <chrono>
#include <string>
#include <vector>

#include "examples/bench/statistics.hpp"
#include "examples/bench/trainee.hpp"
#include "examples/bench/training.hpp"

namespace bench {
namespace {

// What a bucket's row shows, in us; `at` since the begin of the step.
struct bucket_row {
  std::vector<double> ready, start, end, needed, busy, exposed;
};

double microseconds(std::chrono::nanoseconds of) { return static_cast<double>(of.count()) * 1e-3; }

void add(std::vector<bucket_row>& rows, const gradsync::step_times& step) {
  rows.resize(step.buckets.size());
  for (std::size_t b = 0; b < rows.size(); ++b) {
    const gradsync::bucket_times& t = step.buckets[b];
    rows[b].ready.push_back(microseconds(t.ready - step.begin));
    rows[b].start.push_back(microseconds(t.start - step.begin));
    rows[b].end.push_back(microseconds(t.end - step.begin));
    rows[b].needed.push_back(microseconds(step.finish - step.begin));
    rows[b].busy.push_back(microseconds(t.busy));
    rows[b].exposed.push_back(microseconds(t.exposed));
  }
}

}  // namespace

training_outcome measure_overlap(const training_options& chosen) {
  const fashion::dataset data = data_for(chosen, chosen.batch * 16);
  gradsync::recorder recorder{0};
  std::vector<std::size_t> bytes;
  gradsync::thread_group{chosen.ranks}.run([&](auto& comm) {
    trainee one{comm, chosen, data, chosen.batch * static_cast<std::size_t>(comm.size()), comm.rank() == 0 ? &recorder : nullptr};
    // The first update plans buckets anew, and the one after it is the first with the new ones.
    for (std::size_t u = 0; u < chosen.updates + 2; ++u) one.update();
    if (comm.rank() == 0)
      for (const gradsync::bucket& b : one.sync().plan().buckets) bytes.push_back(b.bytes());
  });
  std::vector<bucket_row> rows;
  for (std::size_t u = 2; u < recorder.steps().size(); ++u) add(rows, recorder.steps()[u]);

  training_outcome seen{table{{{"bucket"},
                               {"size", "B"},
                               {"strategy"},
                               {"ready", "us"},
                               {"start", "us"},
                               {"end", "us"},
                               {"needed", "us"},
                               {"communication", "us"},
                               {"exposed", "us"},
                               {"exposed", "%"}}},
                        {"buckets of a training step, rank 0",
                         "us since its begin",
                         "bucket",
                         false,
                         false,
                         {{"ready", {}}, {"start", {}}, {"end", {}}, {"needed", {}}}}};
  for (std::size_t b = 0; b < rows.size(); ++b) {
    const bucket_row& r = rows[b];
    const double busy = median(r.busy), exposed = median(r.exposed);
    const double at[] = {median(r.ready), median(r.start), median(r.end), median(r.needed)};
    seen.rows.add({static_cast<std::int64_t>(b), static_cast<std::int64_t>(bytes[b]), recorder.steps().back().buckets[b].strategy, at[0],
                   at[1], at[2], at[3], busy, exposed, busy > 0 ? 100 * exposed / busy : 0.0});
    for (std::size_t l = 0; l < 4; ++l) seen.drawn.lines[l].points.push_back({at[l], static_cast<double>(b)});
  }
  return seen;
}

}  // namespace bench
