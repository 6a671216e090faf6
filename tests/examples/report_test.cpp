// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

#include "examples/fashion/report.hpp"

#include <doctest/doctest.h>

#include <sstream>

namespace {

std::chrono::steady_clock::time_point now_for_tests;
std::chrono::steady_clock::time_point test_clock() { return now_for_tests; }

struct watched_report {
  std::ostringstream text;
  fashion::report report;

  explicit watched_report(fashion::report::output kind) : report(text, kind, test_clock) {
    now_for_tests = std::chrono::steady_clock::time_point{} + std::chrono::hours{1};
  }
};

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

const fashion::epoch_summary third{
    .epoch = 3, .loss = 0.48768, .accuracy = 0.8213, .samples_per_second = 45678.9, .communication_ms = 12.4, .exposed_ms = 7.6};

}  // namespace

TEST_CASE("an epoch is one line") {
  watched_report w{fashion::report::output::plain};
  w.report.epoch(third, 10);
  CHECK(w.text.str() == "epoch  3/10  loss 0.4877  accuracy 82.13 %    45679 samples/s  communication 12 ms, 8 ms of it exposed\n");
}

TEST_CASE("away from a terminal there is no bar and no control character") {
  watched_report w{fashion::report::output::plain};
  for (std::size_t done = 0; done < 100; ++done) {
    now_for_tests += std::chrono::seconds{1};
    w.report.progress(1, 10, done, 100);
  }
  CHECK(w.text.str().empty());
}

TEST_CASE("on a terminal the bar is redrawn at most ten times a second") {
  watched_report w{fashion::report::output::terminal};
  for (std::size_t done = 1; done <= 1000; ++done) {
    w.report.progress(1, 10, done, 1000);
    now_for_tests += std::chrono::milliseconds{1};
  }
  CHECK(count(w.text.str(), "epoch 1/10 [") == 10);
}

TEST_CASE("the bar shows how far the epoch is, and makes way for a line") {
  watched_report w{fashion::report::output::terminal};
  w.report.progress(2, 10, 59, 236);
  CHECK(w.text.str() == "\r\x1b[Kepoch 2/10 [##########------------------------------] 59/236");
  w.text.str("");
  w.report.say("hello");
  w.report.say("again");
  CHECK(w.text.str() == "\r\x1b[Khello\nagain\n");
}

TEST_CASE("bytes are readable") {
  CHECK(fashion::readable_bytes(0) == "0 bytes");
  CHECK(fashion::readable_bytes(1023) == "1023 bytes");
  CHECK(fashion::readable_bytes(65536) == "64.0 KiB");
  CHECK(fashion::readable_bytes(437800) == "427.5 KiB");
  CHECK(fashion::readable_bytes(std::size_t{3} << 40) == "3.0 TiB");
}

TEST_CASE("a replica's memory is one line") {
  watched_report w{fashion::report::output::plain};
  w.report.memory({.values = 1024, .gradients = 2048, .optimizer = 512, .buckets = 0, .partial_sums = 4096});
  CHECK(w.text.str() ==
        "memory of a replica: values 1.0 KiB, gradients 2.0 KiB, optimizer 512 bytes, buckets 0 bytes, partial sums 4.0 KiB\n");
  w.text.str("");
  w.report.memory({.scratch = 1024});
  CHECK(w.text.str().ends_with("partial sums 0 bytes, scratch 1.0 KiB\n"));
}
