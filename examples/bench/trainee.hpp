// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// One rank of a training that is timed: its model, its share of the data, and what keeps it in step.
///
///     bench::trainee one{comm, chosen, data, batch};
///     one.update();
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

#include "examples/bench/images.hpp"
#include "examples/bench/perceptron.hpp"
#include "examples/bench/training.hpp"
#include "examples/fashion/batch.hpp"
#include "examples/fashion/strategies.hpp"
#include "gradsync/gradsync.hpp"

namespace bench {

inline double seconds_now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

inline fashion::dataset data_for(const training_options& chosen, std::size_t train) {
  return chosen.data.empty() ? made_images(chosen.side, train, 2048) : fashion::read_dataset(chosen.data);
}

template <class Communicator>
class trainee {
 public:
  /// `batch`: examples of an update over all ranks.
  trainee(Communicator& comm, const training_options& chosen, const fashion::dataset& data, std::size_t batch,
          gradsync::recorder* recorder = nullptr)
      : comm_(comm), data_(data), batch_(batch), scale_(data.train), order_(data.train.count),
        net_(make_perceptron(data.train.pixels_per_image(), chosen.hidden, chosen.seed)),
        sum_(fashion::named_strategy(chosen.strategy, comm)),
        sync_(net_, sum_, {.bucket_bytes = chosen.bucket_bytes, .progress = chosen.progress, .recorder = recorder}),
        optimizer_(net_, {.learning_rate = std::min(0.05 * static_cast<double>(batch) / 256, 0.1), .momentum = 0.9}) {
    fashion::random_source random{chosen.seed};
    std::iota(order_.begin(), order_.end(), 0u);
    for (std::size_t i = order_.size(); i-- > 1;)
      std::swap(order_[i], order_[static_cast<std::size_t>(random.next() * static_cast<double>(i + 1))]);
  }

  /// On this rank's share of the next examples of the common order.
  void update() {
    const auto rank = static_cast<std::size_t>(comm_.rank()), ranks = static_cast<std::size_t>(comm_.size());
    indices_.clear();
    for (std::size_t i = batch_ * rank / ranks; i < batch_ * (rank + 1) / ranks; ++i)
      indices_.push_back(order_[(next_ + i) % order_.size()]);
    next_ += batch_;
    examples_.gather(data_.train, indices_, scale_);
    sync_.begin({.weight = examples_.size()});
    if (examples_.size() == 0) sync_.mark_all_ready();
    else passes_.run(net_, examples_.inputs, examples_.labels, gradients::overwritten, [this](auto& layer) { sync_.mark_ready(layer); });
    sync_.finish();
    optimizer_.step();
  }

  /// Mean over the test set.
  double test_loss() {
    double sum = 0;
    for (std::size_t first = 0; first < data_.test.count; first += 256) {
      indices_.resize(std::min<std::size_t>(256, data_.test.count - first));
      std::iota(indices_.begin(), indices_.end(), static_cast<std::uint32_t>(first));
      examples_.gather(data_.test, indices_, scale_);
      sum += passes_.loss(net_, examples_.inputs, examples_.labels);
    }
    return sum / static_cast<double>(data_.test.count);
  }

  const auto& sync() const { return sync_; }

 private:
  Communicator& comm_;
  const fashion::dataset& data_;
  std::size_t batch_, next_ = 0;
  fashion::pixel_scale scale_;
  std::vector<std::uint32_t> order_, indices_;
  perceptron net_;
  gradsync::collective<Communicator> sum_;
  gradsync::synchronizer<perceptron, Communicator> sync_;
  gradsync::sgd optimizer_;
  fashion::batch examples_;
  passes passes_;
};

}  // namespace bench
