// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "examples/bench/statistics.hpp"
#include "examples/bench/trainee.hpp"
#include "examples/bench/training.hpp"

namespace bench {
namespace {

double microseconds(std::chrono::nanoseconds of, double updates) { return static_cast<double>(of.count()) * 1e-3 / updates; }

struct bucket_row {
  std::size_t bytes = 0;
  std::vector<double> busy, exposed;  // us an update, of the rank where it is most; a number a repeat
};

struct training {
  bool weak;
  int ranks;
  std::size_t batch, updates = 0;
  std::vector<double> rate{};  // examples a second; a number a repeat
  std::vector<bucket_row> buckets{};
  double loss = 0;
  std::optional<placement> where{};  // of all repeats; mixed if they differ

  void note(placement one) { where = where.value_or(one) == one ? one : placement::mixed; }
};

void train(training& t, const training_options& chosen, const fashion::dataset& data, placement_probe& probe) {
  t.updates = chosen.examples / t.batch;
  const double before = probe.round_trip_ns();
  gradsync::thread_group{t.ranks}.run([&](auto& comm) {
    trainee one{comm, chosen, data, t.batch};
    one.update();  // buckets are planned anew after it
    const gradsync::metrics first = one.sync().metrics();
    comm.barrier();
    const double begin = seconds_now();
    for (std::size_t u = 1; u < t.updates; ++u) one.update();
    comm.barrier();
    const double end = seconds_now();
    const gradsync::metrics rest = one.sync().metrics() - first;
    const double updates = static_cast<double>(t.updates - 1);
    t.buckets.resize(comm.rank() == 0 ? rest.buckets.size() : t.buckets.size());
    for (std::size_t b = 0; b < rest.buckets.size(); ++b) {
      const double busy = comm.all_reduce(microseconds(rest.buckets[b].busy, updates), gradsync::reduce_op::max);
      const double exposed = comm.all_reduce(microseconds(rest.buckets[b].exposed, updates), gradsync::reduce_op::max);
      if (comm.rank() != 0) continue;
      t.buckets[b].bytes = one.sync().plan().buckets[b].bytes();
      t.buckets[b].busy.push_back(busy);
      t.buckets[b].exposed.push_back(exposed);
    }
    if (comm.rank() != 0) return;
    t.rate.push_back(updates * static_cast<double>(t.batch) / (end - begin));
    t.loss = one.test_loss();
  });
  t.note(placement_between(before, probe.round_trip_ns()));
}

}  // namespace

training_outcome measure_scaling(const training_options& chosen) {
  const fashion::dataset data = data_for(chosen, chosen.examples);
  placement_probe probe;
  std::vector<training> all;
  for (const bool weak : {false, true})
    for (int ranks = 1; ranks <= chosen.ranks; ranks *= 2)
      all.push_back({.weak = weak, .ranks = ranks, .batch = weak ? chosen.batch * static_cast<std::size_t>(ranks) : chosen.batch});
  for (int repeat = 0; repeat < chosen.repeats; ++repeat)
    for (training& t : all) train(t, chosen, data, probe);

  training_outcome seen{table{{{"scaling"},
                               {"ranks"},
                               {"examples", "an update"},
                               {"placement"},
                               {"throughput", "examples/s"},
                               {"efficiency", "%"},
                               {"test loss"},
                               {"bucket"},
                               {"size", "B"},
                               {"communication", "us/update"},
                               {"exposed", "us/update"}}},
                        {"examples a second", "ranks", "examples/s", true, true, {{"strong", {}}, {"weak", {}}, {"ideal", {}}}}};
  const double one = median(all.front().rate), cpus = static_cast<double>(cpus_at_start().size());
  for (const training& t : all) {
    const double rate = median(t.rate), ranks = t.ranks;
    double busy = 0, exposed = 0;
    for (const bucket_row& b : t.buckets) busy += median(b.busy), exposed += median(b.exposed);
    const auto add = [&](const std::string& bucket, std::size_t bytes, double of_it, double of_that_exposed) {
      seen.rows.add({std::string(t.weak ? "weak" : "strong"), std::int64_t{t.ranks}, static_cast<std::int64_t>(t.batch),
                     std::string(name_of(*t.where)), rate, 100 * rate / (one * std::min(ranks, cpus)), t.loss, bucket,
                     static_cast<std::int64_t>(bytes), of_it, of_that_exposed});
    };
    std::size_t bytes = 0;
    for (const bucket_row& b : t.buckets) bytes += b.bytes;
    add("all", bytes, busy, exposed);
    for (std::size_t b = 0; b < t.buckets.size(); ++b)
      add(std::to_string(b), t.buckets[b].bytes, median(t.buckets[b].busy), median(t.buckets[b].exposed));
    seen.drawn.lines[t.weak ? 1 : 0].points.push_back({ranks, rate});
    if (!t.weak) seen.drawn.lines[2].points.push_back({ranks, one * std::min(ranks, cpus)});
  }
  return seen;
}

}  // namespace bench
