// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

#include "examples/fashion/report.hpp"

#include <unistd.h>  // isatty

#include <algorithm>
#include <array>
#include <cstdio>
#include <ostream>

namespace fashion {
namespace {

/// snprintf, for lines of fewer than 200 characters.
template <class... Values>
std::string format(const char* pattern, Values... values) {
  std::array<char, 200> text{};
  const int length = std::snprintf(text.data(), text.size(), pattern, values...);
  return {text.data(), std::min(static_cast<std::size_t>(std::max(length, 0)), text.size() - 1)};
}

// "Return to the first column, erase to the end of the line": understood by every terminal since the VT100.
constexpr const char* erase_line = "\r\x1b[K";

}  // namespace

std::string readable_bytes(std::size_t bytes) {
  if (bytes < 1024) return format("%zu bytes", bytes);
  double value = static_cast<double>(bytes);
  constexpr std::array units{"KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  for (value /= 1024; value >= 1024 && unit + 1 < units.size(); ++unit) value /= 1024;
  return format("%.1f %s", value, units[unit]);
}

void report::say(const std::string& text) {
  if (bar_stands_) out_ << erase_line;
  bar_stands_ = false;
  out_ << text << '\n' << std::flush;
}

void report::progress(int epoch, int epochs, std::size_t done, std::size_t all) {
  if (kind_ != output::terminal || all == 0) return;
  const auto now = now_();
  if (bar_stands_ && now - drawn_ < std::chrono::milliseconds{100}) return;
  drawn_ = now;
  bar_stands_ = true;
  constexpr std::size_t width = 40;
  const std::size_t filled = std::min(width, width * done / all);
  const std::string bar = std::string(filled, '#') + std::string(width - filled, '-');
  out_ << erase_line << format("epoch %d/%d [%s] %zu/%zu", epoch, epochs, bar.c_str(), done, all) << std::flush;
}

void report::epoch(const epoch_summary& s, int epochs) {
  say(format("epoch %2d/%d  loss %.4f  accuracy %5.2f %%  %7.0f samples/s  communication %.0f ms, %.0f ms of it exposed", s.epoch, epochs,
             s.loss, 100 * s.accuracy, s.samples_per_second, s.communication_ms, s.exposed_ms));
}

void report::memory(const replica_memory& m) {
  say("memory of a replica: values " + readable_bytes(m.values) + ", gradients " + readable_bytes(m.gradients) + ", optimizer " +
      readable_bytes(m.optimizer) + ", buckets " + readable_bytes(m.buckets) + ", partial sums " + readable_bytes(m.partial_sums) +
      (m.scratch > 0 ? ", scratch " + readable_bytes(m.scratch) : ""));
}

report::output standard_output_kind() { return isatty(STDOUT_FILENO) == 1 ? report::output::terminal : report::output::plain; }

}  // namespace fashion
