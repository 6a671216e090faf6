// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0
#include "examples/bench/trainee.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace bench {

trainee::trainee(gradsync::thread_communicator& comm, const training_options& chosen, const fashion::dataset& data, std::size_t batch,
                 gradsync::recorder* recorder)
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

trainee::~trainee() = default;

void trainee::update() {
  const auto rank = static_cast<std::size_t>(comm_.rank()), ranks = static_cast<std::size_t>(comm_.size());
  indices_.clear();
  for (std::size_t i = batch_ * rank / ranks; i < batch_ * (rank + 1) / ranks; ++i) indices_.push_back(order_[(next_ + i) % order_.size()]);
  next_ += batch_;
  examples_.gather(data_.train, indices_, scale_);
  sync_.begin({.weight = examples_.size()});
  if (examples_.size() == 0) sync_.mark_all_ready();
  else passes_.run(net_, examples_.inputs, examples_.labels, gradients::overwritten, [this](auto& layer) { sync_.mark_ready(layer); });
  sync_.finish();
  optimizer_.step();
}

double trainee::test_loss() {
  double sum = 0;
  for (std::size_t first = 0; first < data_.test.count; first += 256) {
    indices_.resize(std::min<std::size_t>(256, data_.test.count - first));
    std::iota(indices_.begin(), indices_.end(), static_cast<std::uint32_t>(first));
    examples_.gather(data_.test, indices_, scale_);
    sum += passes_.loss(net_, examples_.inputs, examples_.labels);
  }
  return sum / static_cast<double>(data_.test.count);
}

}  // namespace bench
