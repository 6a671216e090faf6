// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// What an optimizer keeps between steps: for each parameter an array of its length and type, zero at first, in one block of memory.
#pragma once

#include <cmath>    // settings must be finite
#include <cstddef>  // bytes
#include <string>   // messages

#include "gradsync/core/aligned_bytes.hpp"
#include "gradsync/core/error.hpp"
#include "gradsync/core/series.hpp"
#include "gradsync/model/parameter.hpp"

namespace gradsync::detail {

class slots {
 public:
  slots() = default;
  explicit slots(series_view<parameter> parameters) {
    std::size_t end = 0;
    for (const parameter& p : parameters) {
      offsets_.push_back(end);
      bytes_ += p.bytes();
      end += (p.bytes() + 63) / 64 * 64;
    }
    memory_ = aligned_bytes(end);
  }

  bool empty() const { return offsets_.empty(); }
  std::size_t bytes() const { return bytes_; }
  template <class T>
  T* of(std::size_t parameter) const {
    return reinterpret_cast<T*>(memory_.data() + offsets_[parameter]);
  }

 private:
  aligned_bytes memory_;
  series<std::size_t> offsets_;
  std::size_t bytes_ = 0;
};

// Before the first value changes, so that an error leaves the model as it was.
inline void check_ready_to_step(series_view<parameter> parameters) {
  for (const parameter& p : parameters) {
    if (const std::size_t value = p.value().count; value != p.count)
      throw usage_error("had " + std::to_string(p.count) + " elements when the optimizer was made, now " + std::to_string(value) +
                            "; make a new optimizer after a change of the model",
                        {.parameter = p.name()});
    if (const std::size_t grad = p.grad().count; grad != p.count)
      throw usage_error(
          "has " + std::to_string(p.count) + " elements, its gradient " + std::to_string(grad) + "; compute all gradients before a step",
          {.parameter = p.name()});
  }
}

inline void check_not_negative(const char* option, double value) {
  if (!std::isfinite(value) || value < 0)
    throw usage_error(std::string(option) + " is " + std::to_string(value) + "; it must be finite and at least 0");
}

inline void check_fraction(const char* option, double value) {
  if (!(value >= 0 && value < 1))
    throw usage_error(std::string(option) + " is " + std::to_string(value) + "; it must be at least 0 and less than 1");
}

}  // namespace gradsync::detail
