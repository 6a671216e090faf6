// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// A gradient's way on its own rank: from the user's object to the slot in which its bucket is summed, as a weighted sum over its examples.
///
/// It goes no further than it must: where the bucket lies in place, with one micro-step, and the collective's fused pass multiplies by the
/// weight as it reads, nothing is touched. Else one pass over the gradient does all there is to do: multiplies, adds what earlier
/// micro-steps have left, and writes to the slot.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "gradsync/bucket/plan.hpp"
#include "gradsync/bucket/storage.hpp"
#include "gradsync/comm/transport.hpp"
#include "gradsync/core/error.hpp"
#include "gradsync/model/parameter.hpp"
#include "gradsync/sync/reducer.hpp"
#include "gradsync/sync/window.hpp"

namespace gradsync {

template <transport Communicator>
class route {
 public:
  route(std::span<const parameter> parameters, window& micro_steps, bucket_storage& storage, reducer<Communicator>& sums)
      : parameters_(parameters), window_(&micro_steps), storage_(&storage), reducer_(&sums) {}

  /// Takes a parameter's gradient as it is now. `usage_error`, and nothing changed, if it has not the length of its value.
  void take(std::size_t parameter) {
    if (window_->last()) place(parameter, gradient(parameter));
    else if (window_->reads()) window_->take(stream_, parameter, gradient(parameter));
  }

  /// Sends the next bucket of the plan, all of whose gradients have been taken.
  void launch() {
    if (untouched()) reducer_->skip(window_->weight());
    else reducer_->launch(scaled_in_pass(reducer_->launched()) ? window_->scale() : 1, window_->weight());
  }

 private:
  // A rank that contributes nothing may not have made its gradient yet.
  memory gradient(std::size_t i) const {
    const parameter& p = parameters_[i];
    memory grad = p.grad();
    if (grad.count == 0 && p.count > 0 && window_->scale() == 0 && p.resize_grad()) grad = p.grad();
    if (grad.count == p.count) return grad;
    throw usage_error("the gradient has " + std::to_string(grad.count) + " elements, the value had " + std::to_string(p.count) +
                          " when the synchronizer was made",
                      {.rank = -1, .step = -1, .bucket = static_cast<int>(storage_->bucket_of(i)), .parameter = p.name()});
  }

  void place(std::size_t i, memory grad) {
    const memory slot = storage_->place(i, grad);
    const double factor = untouched() ? 1 : window_->scale();
    if (slot.data != grad.data || window_->has_partial_sums() || (factor != 1 && !scaled_in_pass(storage_->bucket_of(i))))
      window_->close(stream_, slot, i, grad, factor);
  }

  // One rank's one mean is the result already, to the bit.
  bool untouched() const { return reducer_->alone() && window_->is_one_mean(); }

  // A fused pass multiplies gradients on its way, if there is nothing else to be done to them before.
  bool scaled_in_pass(std::size_t bucket) const {
    return reducer_->scales(bucket) && window_->scale() != 0 && !window_->has_partial_sums() && storage_->how() != layout::packed;
  }

  std::span<const parameter> parameters_;
  window* window_;
  bucket_storage* storage_;
  reducer<Communicator>* reducer_;
  typename Communicator::stream_type stream_;
};

}  // namespace gradsync
