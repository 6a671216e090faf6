// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// Which parameters of this micro-step are ready, and which buckets are therefore full. Marks come in any order; buckets are given out in
/// plan order.
///
/// A parameter that stands in the model k times is ready at its k-th mark: each alias's layer marks it once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "gradsync/bucket/plan.hpp"
#include "gradsync/core/error.hpp"
#include "gradsync/core/series.hpp"
#include "gradsync/model/parameter.hpp"

namespace gradsync {

/// From the address of a user's object to the parameter it is: open addressing, built once.
class address_index {
 public:
  static constexpr std::size_t none = static_cast<std::size_t>(-1);

  explicit address_index(series_view<parameter> parameters) {
    std::size_t keys = 0;
    for (const parameter& p : parameters) keys += 3 * p.aliases.size();
    while (entries_.size() < 2 * keys + 2) entries_.resize(entries_.empty() ? 16 : 2 * entries_.size());
    for (std::size_t i = 0; i < parameters.size(); ++i)
      for (const alias& a : parameters[i].aliases)
        for (const void* address : {a.parameter, static_cast<const void*>(a.value), static_cast<const void*>(a.grad)})
          entries_[find_slot(address)] = {address, i};
  }

  /// The parameter's index, or `none`.
  std::size_t find(const void* address) const {
    const entry& e = entries_[find_slot(address)];
    return e.address == address && address != nullptr ? e.parameter : none;
  }

 private:
  struct entry {
    const void* address = nullptr;
    std::size_t parameter = none;
  };

  std::size_t find_slot(const void* address) const {
    const std::size_t mask = entries_.size() - 1;
    std::size_t i = static_cast<std::size_t>((reinterpret_cast<std::uintptr_t>(address) * 0x9e3779b97f4a7c15u) >> 32) & mask;
    while (entries_[i].address != nullptr && entries_[i].address != address) i = (i + 1) & mask;
    return i;
  }

  series<entry> entries_;
};

class ready_tracker {
 public:
  ready_tracker(const bucket_plan& plan, series_view<parameter> parameters) : plan_(&plan), parameters_(parameters) {
    for (const parameter& p : parameters) marks_.push_back(static_cast<std::uint32_t>(p.aliases.size()));
    for (const bucket& b : plan.buckets) slots_.push_back(static_cast<std::uint32_t>(b.slots.size()));
    reset();
  }

  /// A new micro-step: nothing is ready.
  void reset() {
    missing_marks_ = marks_;
    missing_slots_ = slots_;
    missing_parameters_ = parameters_.size();
    next_ = 0;
  }

  /// One mark of a parameter, whose gradient is then in its bucket if it was the last one missing. `usage_error` if none was missing;
  /// nothing changes then.
  void mark(std::size_t parameter) {
    if (missing_marks_[parameter] == 0)
      throw usage_error(
          once_more(parameter),
          {.rank = -1, .step = -1, .bucket = static_cast<int>(plan_->bucket_of[parameter]), .parameter = parameters_[parameter].name()});
    if (--missing_marks_[parameter] > 0) return;
    --missing_parameters_;
    --missing_slots_[plan_->bucket_of[parameter]];
  }
  /// Whether nothing has been marked since the reset.
  bool untouched() const { return missing_marks_ == marks_; }
  std::uint32_t missing_marks(std::size_t parameter) const { return missing_marks_[parameter]; }

  /// Whether the next bucket in plan order is full; then it is given out, once.
  bool next_full(std::size_t& bucket) {
    if (next_ == missing_slots_.size() || missing_slots_[next_] != 0) return false;
    bucket = next_++;
    return true;
  }

  /// `usage_error` if something is not ready: names the parameters that lack a mark, up to `named` of them, and the first one's aliases.
  void check_all_ready() const {
    constexpr std::size_t named = 8;
    if (missing_parameters_ == 0) return;
    series<std::size_t> missing;
    for (std::size_t i = 0; i < parameters_.size() && missing.size() < named; ++i)
      if (missing_marks_[i] > 0) missing.push_back(i);
    const parameter& first = parameters_[missing.front()];
    std::string text = "was not marked ready ";
    if (first.aliases.size() > 1) text += std::to_string(first.aliases.size()) + " times, once for each of" + names(first) + ", ";
    text += "before finish()";
    for (std::size_t m = 1; m < missing.size(); ++m)
      text += (m == 1 ? "; the same goes for \"" : ", \"") + parameters_[missing[m]].name() + '"';
    if (missing_parameters_ > named) text += " and " + std::to_string(missing_parameters_ - named) + " more";
    throw usage_error(text + "; mark_all_ready() takes what your backward pass has not used as it is",
                      {.rank = -1, .step = -1, .bucket = static_cast<int>(plan_->bucket_of[missing.front()]), .parameter = first.name()});
  }

 private:
  static std::string names(const parameter& p) {
    std::string text;
    for (const alias& a : p.aliases) text += " " + a.name;
    return text;
  }
  std::string once_more(std::size_t parameter) const {
    const gradsync::parameter& p = parameters_[parameter];
    if (p.aliases.size() == 1) return "marked ready twice in one micro-step";
    return "marked ready more than " + std::to_string(p.aliases.size()) + " times in one micro-step; its names are" + names(p);
  }

  const bucket_plan* plan_;
  series_view<parameter> parameters_;
  series<std::uint32_t> marks_, slots_;  // what a whole micro-step takes
  series<std::uint32_t> missing_marks_, missing_slots_;
  std::size_t missing_parameters_ = 0, next_ = 0;
};

}  // namespace gradsync
