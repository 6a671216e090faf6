// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

#include "examples/bench/report.hpp"

#include <algorithm>
#include <cstdint>

namespace bench {
namespace {

double bus_factor(int size) { return 2.0 * (size - 1) / size; }

const char* mode_of(const row& r) { return r.produced ? "produced" : "hot"; }

bool same_cell(const row& a, const row& b) { return a.bytes == b.bytes && a.strategy == b.strategy && a.produced == b.produced; }

// A fifth of the samples of the label that has the most.
bool counts(const row& r, const std::vector<row>& rows) {
  std::size_t most = 0;
  for (const row& other : rows)
    if (same_cell(r, other)) most = std::max(most, other.count);
  return 5 * r.count >= most;
}

}  // namespace

table table_of(const measured& all, const options& chosen) {
  table shown({{"size", "B"},
               {"count"},
               {"type"},
               {"redop"},
               {"strategy"},
               {"runs"},
               {"mode"},
               {"cores"},
               {"samples"},
               {"time", "us"},
               {"algbw", "GB/s"},
               {"busbw", "GB/s"},
               {"#wrong"},
               {"limit", "us"},
               {"limit", "%"}});
  for (const row& r : all.rows) {
    if (!counts(r, all.rows)) continue;
    const double rate = static_cast<double>(r.bytes) / r.seconds / 1e9;
    shown.add({static_cast<std::int64_t>(r.bytes), static_cast<std::int64_t>(r.bytes / 4), "float", chosen.mean ? "avg" : "sum", r.strategy,
               r.algorithm, mode_of(r), name_of(r.where), static_cast<std::int64_t>(r.count), r.seconds * 1e6, rate,
               rate * bus_factor(all.size), r.wrong, r.limit * 1e6, 100 * r.limit / r.seconds});
  }
  return shown;
}

chart chart_of(const measured& all, const options& chosen) {
  chart drawn{
      .title = "all-reduce, float, " + std::string(chosen.mean ? "avg" : "sum") + ", " + std::to_string(all.size) + " " + all.transport,
      .x = "size (B)",
      .y = "algbw (GB/s)",
      .lines = {}};
  const auto line_of = [&](const std::string& name) -> line& {
    for (line& l : drawn.lines)
      if (l.name == name) return l;
    return drawn.lines.emplace_back(line{name, {}});
  };
  for (const row& r : all.rows) {
    if (!counts(r, all.rows)) continue;
    const std::string label = std::string(" ") + mode_of(r) + ", " + name_of(r.where);
    const double bytes = static_cast<double>(r.bytes);
    line_of(r.strategy + label).points.emplace_back(bytes, bytes / r.seconds / 1e9);
    if (r.strategy == chosen.strategies.front()) line_of("yardstick" + label).points.emplace_back(bytes, bytes / r.yardstick / 1e9);
  }
  return drawn;
}

}  // namespace bench
