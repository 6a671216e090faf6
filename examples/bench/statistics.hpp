// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// Samples by the placement under which they were taken, and what they say.
///
///     bench::samples of;
///     of.add(bench::placement::near, 1.2e-6);
///     of.median(bench::placement::near);
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <vector>

#include "examples/bench/probe.hpp"

namespace bench {

/// NaN-free: 0 of none.
inline double quantile(std::vector<double> of, double q) {
  if (of.empty()) return 0;
  const auto at = of.begin() + static_cast<std::ptrdiff_t>(q * static_cast<double>(of.size() - 1) + 0.5);
  std::nth_element(of.begin(), at, of.end());
  return *at;
}
inline double median(std::vector<double> of) { return quantile(std::move(of), 0.5); }

inline constexpr std::array labels{placement::near, placement::far, placement::mixed, placement::alone};

class samples {
 public:
  void add(placement where, double seconds) { of_[static_cast<std::size_t>(where)].push_back(seconds); }
  const std::vector<double>& at(placement where) const { return of_[static_cast<std::size_t>(where)]; }
  double median(placement where) const { return bench::median(at(where)); }
  std::vector<double> all() const {
    std::vector<double> every;
    for (const auto& some : of_) every.insert(every.end(), some.begin(), some.end());
    return every;
  }

 private:
  std::array<std::vector<double>, labels.size()> of_;
};

}  // namespace bench
