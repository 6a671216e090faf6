// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// One rank's training, whatever its peers are: threads (train.cpp) or processes (over_group.hpp).
///
///     fashion::job shared{chosen, data, pixel_scale{data.train}, show, metrics, {}, {}};
///     ranks.run([&](auto& comm) { fashion::train_rank(shared, comm); });
#pragma once

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "examples/fashion/batch.hpp"
#include "examples/fashion/idx.hpp"
#include "examples/fashion/interrupt.hpp"
#include "examples/fashion/metrics_file.hpp"
#include "examples/fashion/mlp.hpp"
#include "examples/fashion/strategies.hpp"
#include "examples/fashion/train.hpp"
#include "gradsync/gradsync.hpp"

namespace fashion {

/// What the ranks share. All read it; rank 0 alone speaks, writes metrics and leaves the result, and each rank has its recorder.
struct job {
  const options& chosen;
  const dataset& data;
  pixel_scale scale;
  report& show;
  metrics_file& metrics;
  std::vector<gradsync::recorder> recorders;  ///< one a rank; none without a trace
  training_result result;
};

inline mlp<float> first_weights(const image_set& images, std::uint64_t seed) {
  mlp<float> net;
  initialise(net, images.pixels_per_image(), seed);
  return net;
}

template <class Optimizer>
Optimizer make_optimizer(mlp<float>& net, double learning_rate) {
  if constexpr (std::same_as<Optimizer, gradsync::sgd>) return gradsync::sgd{net, {.learning_rate = learning_rate, .momentum = 0.9}};
  else return gradsync::adamw{net, {.learning_rate = learning_rate}};
}

/// One rank: its model, what keeps the model in step with the others, and its share of the data.
template <class Communicator, class Optimizer>
class replica {
 public:
  replica(job& shared, Communicator& comm)
      : shared_(shared), comm_(comm),
        // Each rank draws weights of its own; the synchronizer then gives all of them rank 0's.
        net_(first_weights(shared.data.train, shared.chosen.seed + static_cast<std::uint64_t>(comm.rank()))),
        sum_(named_strategy(shared.chosen.strategy, comm)),
        sync_(net_, sum_, {.bucket_bytes = shared.chosen.bucket_bytes, .recorder = recorder()}),
        optimizer_(make_optimizer<Optimizer>(net_, shared.chosen.learning_rate)),
        sampler_(shared.data.train.count, comm.rank(), comm.size(),
                 {.batch = shared.chosen.batch, .shards = shared.chosen.shards, .seed = shared.chosen.seed}) {}

  void train() {
    epoch_summary last;
    for (int epoch = 1; epoch <= shared_.chosen.epochs; ++epoch) {
      const auto summary = train_epoch(epoch);
      if (!summary) return;
      last = *summary;
      if (comm_.rank() != 0) continue;
      shared_.show.epoch(last, shared_.chosen.epochs);
      shared_.metrics.write(json_line(last));
    }
    finish(last);
  }

 private:
  gradsync::recorder* recorder() const {
    return shared_.recorders.empty() ? nullptr : &shared_.recorders[static_cast<std::size_t>(comm_.rank())];
  }

  /// What an epoch came to, over all ranks. Nothing if a signal ended it; then all ranks leave it at the same batch.
  std::optional<epoch_summary> train_epoch(int epoch) {
    const gradsync::metrics before = sync_.metrics();
    const auto start = std::chrono::steady_clock::now();
    sampler_.set_epoch(static_cast<std::uint64_t>(epoch));
    optimizer_.options().learning_rate = learning_rate(epoch);
    double loss = 0;
    for (std::size_t b = 0; b < sampler_.batches(); ++b) {
      if (left_together(epoch, b)) return std::nullopt;
      loss += compute_gradients(sampler_.micro_batches(b));
      optimizer_.step();
      if (comm_.rank() == 0) shared_.show.progress(epoch, shared_.chosen.epochs, b + 1, sampler_.batches());
    }
    const double examples = static_cast<double>(shared_.data.train.count);
    epoch_summary summary{.epoch = epoch, .loss = comm_.all_reduce(loss) / examples};
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start;
    const gradsync::metrics spent = sync_.metrics() - before;
    summary.samples_per_second = examples / passed.count();
    summary.communication_ms = 1000 * comm_.all_reduce(spent.communication_seconds(), gradsync::reduce_op::max);
    summary.exposed_ms = 1000 * comm_.all_reduce(spent.exposed_seconds(), gradsync::reduce_op::max);
    summary.accuracy = test_accuracy();
    return summary;
  }

  /// Falls in a straight line from epoch to epoch: small steps at the end take the last epoch's accuracy out of the hands of chance.
  double learning_rate(int epoch) const {
    const int all = shared_.chosen.epochs;
    return shared_.chosen.learning_rate * (all + 1 - epoch) / all;
  }

  /// This rank's part of an update: its shards of the batch, each a micro-step that weighs as much as it has examples. Backward marks a
  /// layer as soon as its gradients are final; after the last `finish()` they are the mean over the whole batch of all ranks.
  /// Returns the sum of the losses of this rank's examples.
  double compute_gradients(std::span<const gradsync::micro_batch> shards) {
    if (shards.empty()) sync_.contribute_nothing();
    double loss = 0;
    for (const gradsync::micro_batch& shard : shards) {
      examples_.gather(shared_.data.train, shard.indices, shared_.scale);
      sync_.begin({.weight = examples_.size(), .micro_step = shard.last ? gradsync::micro_step::last : gradsync::micro_step::more});
      if (examples_.size() == 0) {
        sync_.mark_all_ready();
      } else {
        forward(net_, examples_.inputs, activations_);
        // Rounded to 2^-20: sums of such numbers are exact, so the loss of an epoch doesn't depend on which rank added which.
        loss += std::nearbyint(double{softmax_cross_entropy<float>(examples_.labels, activations_)} * 0x1p20) * 0x1p-20;
        backward(net_, examples_.inputs, activations_, [this](layer<float>& done) { sync_.mark_ready(done); });
      }
      sync_.finish();
    }
    return loss;
  }

  /// The share of the test set that is recognised. Blocks of a fixed size go round the ranks: any number of them gets the same answer.
  double test_accuracy() {
    constexpr std::size_t block = 500;
    const image_set& test = shared_.data.test;
    const std::size_t stride = block * static_cast<std::size_t>(comm_.size());
    std::uint64_t correct = 0;
    std::vector<std::size_t> indices;
    for (std::size_t first = block * static_cast<std::size_t>(comm_.rank()); first < test.count; first += stride) {
      indices.resize(std::min(block, test.count - first));
      std::iota(indices.begin(), indices.end(), first);
      examples_.gather(test, indices, shared_.scale);
      forward(net_, examples_.inputs, activations_);
      correct += count_correct<float>(examples_.labels, activations_);
    }
    return static_cast<double>(comm_.all_reduce(correct)) / static_cast<double>(test.count);
  }

  /// Whether a signal came to any rank's notice. All ranks get the same answer.
  bool left_together(int epoch, std::size_t batch) {
    const int signal = comm_.all_reduce(interrupted(), gradsync::reduce_op::max);
    if (signal == 0) return false;
    if (comm_.rank() == 0) {
      shared_.result.signal = signal;
      shared_.show.say("interrupted in epoch " + std::to_string(epoch) + " before batch " + std::to_string(batch + 1) +
                       "; all ranks left together");
    }
    return true;
  }

  void finish(const epoch_summary& last) {
    const std::uint64_t mine = gradsync::fingerprint(net_);
    const bool agree = comm_.all_reduce(mine, gradsync::reduce_op::min) == comm_.all_reduce(mine, gradsync::reduce_op::max);
    if (comm_.rank() != 0) return;
    const gradsync::memory_report memory = sync_.memory();
    const options& chosen = shared_.chosen;
    shared_.show.memory({.values = memory.values,
                         .gradients = memory.gradients,
                         .optimizer = optimizer_.state_bytes(),
                         .buckets = memory.buckets,
                         .partial_sums = memory.partial_sums,
                         .scratch = memory.scratch});
    std::string plan = sync_.describe_plan();
    while (plan.ends_with('\n')) plan.pop_back();
    shared_.show.say(plan);
    shared_.show.say(reproducibility());
    const std::string hex = gradsync::to_hex(mine), ranks = std::to_string(chosen.ranks);
    const std::string verdict = agree ? "weights: the same bits on all ranks (" + ranks + ")," : "weights: THE RANKS DIFFER; rank 0 has";
    shared_.show.say(verdict + " fingerprint " + hex);
    shared_.metrics.write(json_line(final_summary{
        .ranks = chosen.ranks, .shards = chosen.shards, .strategy = chosen.strategy, .accuracy = last.accuracy, .fingerprint = hex}));
    shared_.result = {.loss = last.loss, .accuracy = last.accuracy, .fingerprint = mine, .replicas_agree = agree, .signal = 0};
  }

  /// What the bits of the result depend on, beside data, options and seed.
  std::string reproducibility() const {
    const auto ranks = static_cast<std::size_t>(comm_.size());
    const bool even = shared_.chosen.shards % ranks == 0 && std::has_single_bit(shared_.chosen.shards / ranks);
    const gradsync::level level = sum_.reproducibility();
    const std::string shards = std::to_string(shared_.chosen.shards) + " shards";
    if (level == gradsync::level::canonical && even)
      return "bits: the same for any number of ranks that gives each a power of two of the " + shards + ", and for any bucket size";
    if (level >= gradsync::level::uniform)
      return "bits: dependent on the number of ranks, whose share of the " + shards + " is no power of two; the same for any bucket size";
    return "bits: dependent on the number of ranks and on the bucket size, since " + shared_.chosen.strategy + " adds in another order";
  }

  job& shared_;
  Communicator& comm_;
  mlp<float> net_;
  gradsync::collective<Communicator> sum_;
  gradsync::synchronizer<mlp<float>, Communicator> sync_;
  Optimizer optimizer_;
  gradsync::distributed_sampler sampler_;
  batch examples_;  // kept from one batch to the next, as the activations are: no allocation in each
  activations<float> activations_;
};

template <class Communicator>
void train_rank(job& shared, Communicator& comm) {
  if (shared.chosen.optimizer == optimizer_kind::adamw) replica<Communicator, gradsync::adamw>{shared, comm}.train();
  else replica<Communicator, gradsync::sgd>{shared, comm}.train();
}

inline std::string headline(const options& chosen, const dataset& data) {
  const std::string size = std::to_string(data.train.rows) + " x " + std::to_string(data.train.columns);
  return std::to_string(data.train.count) + " images of " + size + " to learn from, " + std::to_string(data.test.count) + " to test; " +
         std::to_string(chosen.ranks) + (chosen.ranks == 1 ? " rank, " : " ranks, ") + std::to_string(chosen.shards) +
         " shards of a batch of " + std::to_string(chosen.batch) + ", strategy " + chosen.strategy;
}

}  // namespace fashion
