// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// A gradient's way on its own rank: from the user's object to the slot in which its bucket is summed, as a weighted sum over its examples.
///
/// It goes no further than it must: where the bucket lies in place, with one micro-step, and the collective's fused pass multiplies by the
/// weight as it reads, nothing is touched. Else one pass over the gradient does all there is to do: multiplies, adds what earlier
/// micro-steps have left, and writes to the slot. That is done at the mark; on an asynchronous stream for a whole bucket at once, when it
/// leaves, so that the device gets few and large pieces of work.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>

#include "gradsync/bucket/plan.hpp"
#include "gradsync/bucket/storage.hpp"
#include "gradsync/comm/transport.hpp"
#include "gradsync/core/error.hpp"
#include "gradsync/core/series.hpp"
#include "gradsync/model/parameter.hpp"
#include "gradsync/sync/reducer.hpp"
#include "gradsync/sync/window.hpp"

namespace gradsync {

template <transport Communicator>
class route {
 public:
  using stream_type = stream_of<Communicator>;
  using handle = typename stream_type::handle;

  route(series_view<parameter> parameters, window& micro_steps, bucket_storage& storage, reducer<Communicator>& sums)
      : parameters_(parameters), window_(&micro_steps), storage_(&storage), reducer_(&sums),
        taken_(stream_type::asynchronous ? parameters.size() : 0) {
    for (const parameter& p : parameters) sources_.push_back({p.grad_access, p.aliases.front().grad, p.count});
  }

  /// A micro-step: what it asks of all gradients alike is settled here, so that a mark has little to ask. Throws as `window::begin`.
  template <class Allocate>
  void begin(const step_options& step, Allocate&& allocate) {
    window_->begin(step, allocate);
    factor_ = untouched() ? 1 : window_->scale();
    stays_ = window_->last() && storage_->how() != layout::packed && !window_->has_partial_sums() && (factor_ == 1 || all_scaled_in_pass());
  }

  /// Takes a parameter's gradient as `user`, the stream that writes it, leaves it. `usage_error`, and nothing changed, if it has not the
  /// length of its value.
  void take(std::size_t parameter, const handle& user) {
    if (!window_->reads()) return;
    const memory grad = gradient(parameter);
    bool new_writer = false;
    if constexpr (stream_type::asynchronous) {
      new_writer = std::find(writers_.begin(), writers_.end(), user) == writers_.end();
      if (new_writer) enter_capture(user);
    }
    const gradient_move way{grad, window_->last() ? storage_->place(parameter, grad) : memory{}};
    if constexpr (stream_type::asynchronous) {
      taken_[parameter] = way;
      if (new_writer) writers_.push_back(user);
    } else if (!stays_) move(parameter, way);
  }

  /// Sends the next bucket of the plan, all of whose gradients have been taken.
  void launch() {
    const std::size_t b = reducer_->launched();
    if constexpr (stream_type::asynchronous) {
      wait_for_writers();
      for (const slot& s : reducer_->plan().buckets[b].slots) move(s.parameter, taken_[s.parameter]);
    }
    if (untouched()) reducer_->skip(window_->weight());
    else reducer_->launch(scaled_in_pass(b) ? window_->scale() : 1, window_->weight());
  }

  /// Ends a micro-step that is not the last: its gradients have been read when `user` goes on.
  void end_micro_step(const handle& user) {
    if constexpr (stream_type::asynchronous) {
      if (window_->reads()) {
        wait_for_writers();
        for (std::size_t i = 0; i < taken_.size(); ++i) move(i, taken_[i]);
        stream().release_to(user);
      }
    }
    window_->end();
  }

  /// The gradients of the update hold the mean when `user` goes on.
  void end_update(const handle& user) {
    stream().release_to(user);
    window_->reset();
  }

 private:
  struct gradient_move {
    memory grad;  // where it was when it was marked
    memory slot;  // where its bucket has it, in the last micro-step
  };

  stream_type& stream() { return reducer_->stream(); }

  // Tells of a stream that may be being captured in a graph. `usage_error` where this update can't be.
  void enter_capture(const handle& user) {
    const double weight = window_->step().weight.value();
    if constexpr (requires { reducer_->channel().enter_capture(user, weight); }) reducer_->channel().enter_capture(user, weight);
  }

  // All that streams of the user's have been given up to now, so all gradients that were marked up to now.
  void wait_for_writers() {
    for (const handle& user : writers_) stream().wait_for(user);
    writers_.clear();
  }

  memory gradient(std::size_t i) const {
    const memory grad = sources_[i].access(sources_[i].grad);
    return grad.count == sources_[i].count ? grad : resized(i);
  }
  // A rank that contributes nothing may not have made its gradient yet.
  memory resized(std::size_t i) const {
    const parameter& p = parameters_[i];
    memory grad = p.grad();
    if (grad.count == 0 && window_->scale() == 0 && p.resize_grad()) grad = p.grad();
    if (grad.count == p.count) return grad;
    throw usage_error("the gradient has " + std::to_string(grad.count) + " elements, the value had " + std::to_string(p.count) +
                          " when the synchronizer was made",
                      {.rank = -1, .step = -1, .bucket = static_cast<int>(storage_->bucket_of(i)), .parameter = p.name()});
  }

  void move(std::size_t i, const gradient_move& way) {
    if (!window_->last()) return window_->take(stream(), i, way.grad);
    if (way.slot.data != way.grad.data || window_->has_partial_sums() || (factor_ != 1 && !scaled_in_pass(storage_->bucket_of(i))))
      window_->close(stream(), way.slot, i, way.grad, factor_);
  }

  // One rank's one mean is the result already, to the bit.
  bool untouched() const { return reducer_->alone() && window_->is_one_mean(); }

  // A fused pass multiplies gradients on its way, if there is nothing else to be done to them before.
  bool scaled_in_pass(std::size_t bucket) const {
    return reducer_->scales(bucket) && window_->scale() != 0 && !window_->has_partial_sums() && storage_->how() != layout::packed;
  }

  bool all_scaled_in_pass() const {
    for (std::size_t b = 0; b < reducer_->plan().buckets.size(); ++b)
      if (!scaled_in_pass(b)) return false;
    return true;
  }

  // What a mark looks at of a parameter, which itself is some cache lines.
  struct source {
    accessor access{};
    void* grad = nullptr;
    std::size_t count = 0;
  };

  series_view<parameter> parameters_;
  series<source> sources_;  // by parameter
  window* window_;
  bucket_storage* storage_;
  reducer<Communicator>* reducer_;
  series<gradient_move> taken_;  // by parameter, until its bucket leaves; of asynchronous streams only
  series<handle> writers_;       // of the gradients that were marked since the stream waited last
  double factor_ = 1;            // what makes a gradient of this micro-step a sum, if it has to become one
  bool stays_ = false;           // nothing is to be done to any gradient of it
};

}  // namespace gradsync
