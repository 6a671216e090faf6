// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// Recorded updates as a Chrome trace (the JSON array format), which ui.perfetto.dev and chrome://tracing open.
///
/// A process a rank: the row "compute" holds each update's backward pass and the wait in finish(), one row a bucket holds its collective,
/// with its strategy. Where buckets were planned anew, a mark in the row "compute" says so, and the rows hold other buckets from there on.
///
///     std::ofstream("trace.json") << gradsync::chrome_trace(recorders);
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "gradsync/core/series.hpp"
#include "gradsync/trace/recorder.hpp"

namespace gradsync {

namespace detail {

class trace_text {
 public:
  explicit trace_text(time_point origin) : origin_(origin) {}

  void name(const char* what, int process, std::size_t row, const std::string& text) {
    item(R"({"ph":"M","name":")" + std::string(what) + R"(","pid":)" + std::to_string(process) + R"(,"tid":)" + std::to_string(row) +
         R"(,"args":{"name":")" + text + R"("}})");
  }

  void span(const std::string& name, int process, std::size_t row, time_point begin, time_point end, const std::string& args) {
    item(R"({"ph":"X","name":")" + name + R"(","pid":)" + std::to_string(process) + R"(,"tid":)" + std::to_string(row) + R"(,"ts":)" +
         microseconds(begin - origin_) + R"(,"dur":)" + microseconds(end - begin) + R"(,"args":{)" + args + "}}");
  }

  static std::string argument(std::int64_t step) { return R"("step":)" + std::to_string(step); }
  static std::string argument(const std::string& strategy) {
    std::string quoted;
    for (const char c : strategy) {  // users name their strategies as they like
      if (c == '"' || c == '\\') quoted += '\\';
      quoted += static_cast<unsigned char>(c) < ' ' ? ' ' : c;
    }
    return R"("strategy":")" + quoted + '"';
  }

  void mark(const std::string& name, int process, std::size_t row, time_point when) {
    item(R"({"ph":"i","name":")" + name + R"(","pid":)" + std::to_string(process) + R"(,"tid":)" + std::to_string(row) + R"(,"ts":)" +
         microseconds(when - origin_) + R"(,"s":"p"})");
  }

  std::string close() && { return "[\n" + text_ + "\n]\n"; }

 private:
  void item(const std::string& json) {
    if (!text_.empty()) text_ += ",\n";
    text_ += json;
  }

  static std::string microseconds(std::chrono::nanoseconds t) {
    const std::string thousandths = std::to_string(t.count() % 1000);
    return std::to_string(t.count() / 1000) + '.' + std::string(3 - thousandths.size(), '0') + thousandths;
  }

  time_point origin_;
  std::string text_;
};

}  // namespace detail

/// Times are relative to the first begin of any rank.
inline std::string chrome_trace(series_view<recorder> ranks) {
  time_point origin = time_point::max();
  for (const recorder& r : ranks)
    if (!r.steps().empty() && r.steps().front().begin < origin) origin = r.steps().front().begin;
  detail::trace_text text(origin);
  for (const recorder& r : ranks) {
    text.name("process_name", r.rank(), 0, "rank " + std::to_string(r.rank()));
    text.name("thread_name", r.rank(), 0, "compute");
    std::size_t buckets = 0;
    for (const step_times& s : r.steps()) buckets = std::max(buckets, s.buckets.size());
    for (std::size_t b = 0; b < buckets; ++b) text.name("thread_name", r.rank(), b + 1, "bucket " + std::to_string(b));
    for (const step_times& s : r.steps()) {
      const std::string step = text.argument(s.step);
      text.span("backward", r.rank(), 0, s.begin, s.finish, step);
      text.span("finish", r.rank(), 0, s.finish, s.end, step);
      for (std::size_t b = 0; b < s.buckets.size(); ++b)
        text.span("all-reduce", r.rank(), b + 1, s.buckets[b].start, s.buckets[b].end, step + ',' + text.argument(s.buckets[b].strategy));
      if (s.replanned) text.mark("planned anew", r.rank(), 0, s.end);
    }
  }
  return std::move(text).close();
}

}  // namespace gradsync
