// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// Where the elements of each bucket lie. The one place that knows the three layouts; what comes after it sees a `buffer_view` a bucket.
///
/// in place: the view is a list of the user's own gradients. adopted: the user's memory, one gradient after the other, or ours with the
/// user's views pointed into it. packed: ours; gradients are copied in when they are marked, and out when the mean has arrived.
///
/// A slot of ours, or one that was adopted, stays where it is for good: when buckets are planned anew they become lists of the same slots.
#pragma once

#include <cstddef>
#include <string>

#include "gradsync/bucket/plan.hpp"
#include "gradsync/core/aligned_bytes.hpp"
#include "gradsync/core/buffer_view.hpp"
#include "gradsync/core/error.hpp"
#include "gradsync/core/series.hpp"
#include "gradsync/core/stream.hpp"
#include "gradsync/model/parameter.hpp"

namespace gradsync {

class bucket_storage {
 public:
  /// `how` must not be automatic. `allocate(bytes)` makes memory of ours. `usage_error` if `adopted` is asked for and the gradients neither
  /// are views nor lie one after the other.
  template <class Allocate>
  bucket_storage(const bucket_plan& plan, series_view<parameter> parameters, layout how, Allocate&& allocate)
      : plan_(&plan), parameters_(parameters), how_(how), grads_(parameters.size()), homes_(parameters.size()) {
    for (const bucket& one : plan.buckets) {
      if (how == layout::adopted && !are_views(one)) adopt_arena(one);
      else if (how != layout::in_place) own(one, allocate(one.padded_count * size_of(one.type)));
    }
    regroup();
    point_views();
  }
  /// With memory of the host.
  bucket_storage(const bucket_plan& plan, series_view<parameter> parameters, layout how)
      : bucket_storage(plan, parameters, how, [](std::size_t bytes) { return aligned_bytes(bytes); }) {}

  /// Releases the views, in a model that has not changed. If it may have, `release` is to be called before.
  ~bucket_storage() {
    if (has_views_) release(parameters_);
  }
  bucket_storage(const bucket_storage&) = delete;
  bucket_storage& operator=(const bucket_storage&) = delete;

  layout how() const { return how_; }
  std::size_t bucket_of(std::size_t parameter) const { return plan_->bucket_of[parameter]; }

  /// Whether views of the user's look into storage of ours.
  bool has_views() const { return has_views_; }

  /// They look at nothing from now on, as far as they are among `now`, the parameters that the model has by now.
  void release(series_view<parameter> now) {
    for (const parameter& p : now)
      if (has_views_ && p.grad_access.point != nullptr && is_ours(p.grad().data)) point(p, nullptr, 0);
    has_views_ = false;
  }

  /// Bytes of our own that hold gradients.
  std::size_t bytes() const {
    std::size_t sum = 0;
    for (const aligned_bytes& slab : slabs_) sum += slab.size();
    return sum;
  }

  /// Follows the plan, which has changed. No slot moves.
  void regroup() {
    extents_.assign(plan_->buckets.size(), {});
    for (std::size_t b = 0; b < extents_.size(); ++b)
      for (const slot& s : plan_->buckets[b].slots) {
        if (how_ == layout::in_place) extents_[b].push_back({nullptr, s.first, s.count});
        else append(extents_[b], homes_[s.parameter], size_of(plan_->buckets[b].type));
      }
    if (how_ != layout::in_place) return;
    named_.resize(parameters_.size());
    for (std::size_t i = 0; i < named_.size(); ++i) named_[i] = &extents_[plan_->bucket_of[i]][plan_->slot_of[i]].data;
  }

  /// Notes where a parameter's gradient is in this update, and says where its contribution belongs.
  /// `usage_error` if an adopted gradient has moved away.
  memory place(std::size_t parameter, memory grad) {
    if (how_ == layout::in_place) {
      *named_[parameter] = grad.data;
      return grad;
    }
    grads_[parameter] = grad;
    const memory slot{homes_[parameter].data, parameters_[parameter].count};
    if (how_ == layout::adopted && slot.count > 0 && grad.data != slot.data)
      throw usage_error(
          "the gradient was adopted where it lay at the start, and is now elsewhere; write into it instead of assigning another, or use "
          "layout::packed",
          {.rank = -1, .step = -1, .bucket = static_cast<int>(bucket_of(parameter)), .parameter = parameters_[parameter].name()});
    return slot;
  }

  /// All elements of a bucket, valid when its parameters are placed, until they are placed again.
  buffer_view view(std::size_t bucket) const { return {plan_->buckets[bucket].type, extents_[bucket]}; }

  /// Copies the mean to where the gradients are, if it is not there.
  template <stream S>
  void unpack(S& s, std::size_t bucket) const {
    if (how_ == layout::packed) each_way_home(bucket, [&](const buffer_view& to, const buffer_view& from) { s.copy(to, from); });
  }
  /// The same where the bucket holds a sum that has still to be divided.
  template <stream S, class Total>
  void unpack(S& s, std::size_t bucket, const Total& total) const {
    if (how_ != layout::packed) return s.divide(view(bucket), view(bucket), total);
    each_way_home(bucket, [&](const buffer_view& to, const buffer_view& from) { s.divide(to, from, total); });
  }

 private:
  // Where a gradient is summed, if not where the user has it.
  struct home {
    std::byte* data = nullptr;
    std::size_t count = 0;  // elements, with those up to the next 64 bytes where they are ours
    bool ours = false;
  };

  static void append(series<extent>& list, const home& next, std::size_t element) {
    if (next.count == 0) return;
    if (!list.empty() && list.back().data + list.back().count * element == next.data) list.back().count += next.count;
    else list.push_back({next.data, list.empty() ? 0 : list.back().first + list.back().count, next.count});
  }

  static void point(const parameter& p, std::byte* data, std::size_t count) {
    locating([&] { return gradsync::place{.parameter = p.name()}; },
             [&] {
               for (const alias& a : p.aliases) p.grad_access.point(a.grad, data, count);
             });
  }

  bool is_ours(const std::byte* data) const {
    for (const aligned_bytes& slab : slabs_)
      if (data >= slab.data() && data < slab.data() + slab.size()) return true;
    return false;
  }

  // Calls f(gradient, slot) for each gradient of a bucket.
  template <class F>
  void each_way_home(std::size_t bucket, F&& f) const {
    const gradsync::bucket& one = plan_->buckets[bucket];
    for (const slot& at : one.slots) {
      const extent from{homes_[at.parameter].data, 0, at.count}, to{grads_[at.parameter].data, 0, at.count};
      f(buffer_view{one.type, {&to, 1}}, buffer_view{one.type, {&from, 1}});
    }
  }

  bool are_views(const bucket& one) const {
    bool views = true;
    for (const slot& s : one.slots) views = views && parameters_[s.parameter].grad_access.point != nullptr;
    return views;
  }

  void own(const bucket& one, aligned_bytes&& slab) {
    const std::size_t element = size_of(one.type);
    slabs_.push_back(std::move(slab));
    for (std::size_t k = 0; k < one.slots.size(); ++k) {
      const slot& s = one.slots[k];
      const std::size_t end = k + 1 < one.slots.size() ? one.slots[k + 1].padded : one.padded_count;
      homes_[s.parameter] = {slabs_.back().data() + s.padded * element, end - s.padded, true};
    }
  }

  // Last of all, when nothing can throw any more but a view that refuses.
  void point_views() {
    if (how_ != layout::adopted) return;
    for (const home& h : homes_) has_views_ = has_views_ || h.ours;
    for (std::size_t i = 0; i < homes_.size(); ++i)
      if (homes_[i].ours) point(parameters_[i], homes_[i].data, parameters_[i].count);
  }

  void adopt_arena(const bucket& one) {
    std::byte* begin = nullptr;  // of the first gradient that has elements
    for (const slot& s : one.slots) {
      const memory grad = parameters_[s.parameter].grad();
      if (s.first == 0 && grad.count > 0) begin = grad.data;
      if (grad.count != s.count || (s.count > 0 && grad.data != begin + s.first * size_of(one.type)))
        throw usage_error(
            "can't adopt this gradient: it doesn't follow the one before it in memory; keep the gradients of a model in one arena, in "
            "model order, or use layout::in_place or layout::packed",
            {.rank = -1,
             .step = -1,
             .bucket = static_cast<int>(plan_->bucket_of[s.parameter]),
             .parameter = parameters_[s.parameter].name()});
      homes_[s.parameter] = {grad.data, s.count, false};
    }
  }

  const bucket_plan* plan_;
  series_view<parameter> parameters_;
  layout how_;
  bool has_views_ = false;
  series<memory> grads_;            // of this update, by parameter; packed ones are copied back there
  series<home> homes_;              // by parameter; unused in place
  series<aligned_bytes> slabs_;     // one for each bucket of the first plan whose memory is ours
  series<series<extent>> extents_;  // by bucket
  series<std::byte**> named_;       // in extents_, by parameter: what a mark writes; in place only
};

}  // namespace gradsync
