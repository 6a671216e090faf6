// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// One rank of a training that is timed: its model, its share of the data, and what keeps it in step.
///
///     bench::trainee one{comm, chosen, data, batch};
///     one.update();
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
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

class trainee {
 public:
  /// `batch`: examples of an update over all ranks.
  trainee(gradsync::thread_communicator& comm, const training_options& chosen, const fashion::dataset& data, std::size_t batch,
          gradsync::recorder* recorder = nullptr);
  trainee(const trainee&) = delete;
  ~trainee();

  /// On this rank's share of the next examples of the common order.
  void update();
  /// Mean over the test set.
  double test_loss();

  const auto& sync() const { return sync_; }

 private:
  gradsync::thread_communicator& comm_;
  const fashion::dataset& data_;
  std::size_t batch_, next_ = 0;
  fashion::pixel_scale scale_;
  std::vector<std::uint32_t> order_, indices_;
  perceptron net_;
  gradsync::collective<gradsync::thread_communicator> sum_;
  gradsync::synchronizer<perceptron, gradsync::thread_communicator> sync_;
  gradsync::sgd optimizer_;
  fashion::batch examples_;
  passes passes_;
};

}  // namespace bench
