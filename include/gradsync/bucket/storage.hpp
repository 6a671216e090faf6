// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// Where the elements of each bucket lie. The one place that knows the three layouts; what comes after it sees a `buffer_view` a bucket.
///
/// in place: the view is a list of the user's own gradients. adopted: one extent of the user's memory, or of ours with the user's views
/// pointed into it. packed: one extent of ours; gradients are copied in when they are marked, and out when the mean has arrived.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "gradsync/bucket/plan.hpp"
#include "gradsync/core/aligned_bytes.hpp"
#include "gradsync/core/buffer_view.hpp"
#include "gradsync/core/error.hpp"
#include "gradsync/core/stream.hpp"
#include "gradsync/model/parameter.hpp"

namespace gradsync {

class bucket_storage {
 public:
  /// `how` must not be automatic. `usage_error` if `adopted` is asked for and the gradients neither are views nor lie one after the other.
  bucket_storage(const bucket_plan& plan, std::span<const parameter> parameters, layout how)
      : plan_(&plan), parameters_(parameters), how_(how), grads_(parameters.size()), extents_(plan.buckets.size()),
        slabs_(plan.buckets.size()) {
    for (std::size_t b = 0; b < plan.buckets.size(); ++b) {
      extents_[b].resize(how == layout::in_place ? plan.buckets[b].slots.size() : 1);
      if (how == layout::adopted) adopt(b);
      if (how == layout::packed) own(b);
    }
  }

  /// Views that were pointed into storage of ours then look at nothing.
  ~bucket_storage() {
    for (std::size_t b = 0; how_ == layout::adopted && b < slabs_.size(); ++b)
      for (std::size_t s = 0; slabs_[b].data() != nullptr && s < plan_->buckets[b].slots.size(); ++s) {
        const parameter& p = parameters_[plan_->buckets[b].slots[s].parameter];
        for (const alias& a : p.aliases) p.grad_access.point(a.grad, nullptr, 0);
      }
  }
  bucket_storage(const bucket_storage&) = delete;
  bucket_storage& operator=(const bucket_storage&) = delete;

  layout how() const { return how_; }

  /// Bytes of our own that hold gradients.
  std::size_t bytes() const {
    std::size_t sum = 0;
    for (const aligned_bytes& slab : slabs_) sum += slab.size();
    return sum;
  }

  /// Notes where a parameter's gradient is in this update, and says where its contribution belongs.
  /// `usage_error` if an adopted gradient has moved away.
  memory place(std::size_t parameter, memory grad) {
    const std::size_t b = plan_->bucket_of[parameter];
    const slot& s = plan_->buckets[b].slots[plan_->slot_of[parameter]];
    grads_[parameter] = grad;
    if (how_ == layout::in_place) {
      extents_[b][plan_->slot_of[parameter]] = {grad.data, s.first, s.count};
      return grad;
    }
    const memory home{extents_[b].front().data + (slabs_[b].data() != nullptr ? s.padded : s.first) * size_of(plan_->buckets[b].type),
                      s.count};
    if (how_ == layout::adopted && s.count > 0 && grad.data != home.data)
      throw usage_error(
          "the gradient was adopted where it lay at the start, and is now elsewhere; write into it instead of assigning another, or use "
          "layout::packed",
          {.rank = -1, .step = -1, .bucket = static_cast<int>(b), .parameter = parameters_[parameter].name()});
    return home;
  }

  /// All elements of a bucket, valid when its parameters are placed, until they are placed again.
  buffer_view view(std::size_t bucket) const { return {plan_->buckets[bucket].type, extents_[bucket]}; }

  /// Copies the mean to where the gradients are, if it is not there.
  template <stream S>
  void unpack(S& s, std::size_t bucket) const {
    if (how_ != layout::packed) return;
    const gradsync::bucket& one = plan_->buckets[bucket];
    for (const slot& at : one.slots) {
      const extent from{slabs_[bucket].data() + at.padded * size_of(one.type), 0, at.count};
      const extent to{grads_[at.parameter].data, 0, at.count};
      s.copy(buffer_view{one.type, std::span(&to, 1)}, buffer_view{one.type, std::span(&from, 1)});
    }
  }

 private:
  void own(std::size_t b) {
    const bucket& one = plan_->buckets[b];
    slabs_[b] = aligned_bytes(one.padded_count * size_of(one.type));
    extents_[b].front() = {slabs_[b].data(), 0, one.padded_count};
  }

  void adopt(std::size_t b) {
    const bucket& one = plan_->buckets[b];
    bool views = true;
    for (const slot& s : one.slots) views = views && parameters_[s.parameter].grad_access.point != nullptr;
    if (views) {
      own(b);
      for (const slot& s : one.slots) {
        const parameter& p = parameters_[s.parameter];
        for (const alias& a : p.aliases) p.grad_access.point(a.grad, slabs_[b].data() + s.padded * size_of(one.type), s.count);
      }
      return;
    }
    std::byte*& begin = extents_[b].front().data;  // of the first gradient that has elements
    extents_[b].front().count = one.count;
    for (const slot& s : one.slots) {
      const memory grad = parameters_[s.parameter].grad();
      if (s.first == 0 && grad.count > 0) begin = grad.data;
      if (grad.count == s.count && (s.count == 0 || grad.data == begin + s.first * size_of(one.type))) continue;
      throw usage_error(
          "can't adopt this gradient: it doesn't follow the one before it in memory; keep the gradients of a model in one arena, in model "
          "order, or use layout::in_place or layout::packed",
          {.rank = -1, .step = -1, .bucket = static_cast<int>(b), .parameter = parameters_[s.parameter].name()});
    }
  }

  const bucket_plan* plan_;
  std::span<const parameter> parameters_;
  layout how_;
  std::vector<memory> grads_;                 // of this update, by parameter
  std::vector<std::vector<extent>> extents_;  // by bucket
  std::vector<aligned_bytes> slabs_;          // by bucket; empty where the memory is the user's
};

}  // namespace gradsync
