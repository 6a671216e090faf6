// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// What the program says: an epoch's line, and between them a progress bar if somebody is watching.
///
/// On a terminal the last line is redrawn, at most ten times a second; anywhere else (a file, a pipe, a log) there are plain lines only.
/// One rank speaks for all; a `report` is used by one thread at a time.
#pragma once

#include <chrono>
#include <cstddef>
#include <iosfwd>
#include <string>

namespace fashion {

/// An epoch, over all ranks.
struct epoch_summary {
  int epoch = 0;                  ///< counted from 1
  double loss = 0;                ///< mean over the examples of the epoch, before each update
  double accuracy = 0;            ///< share of the test set that is recognised, 0 to 1
  double samples_per_second = 0;  ///< training examples, without the time of the test
  double communication_ms = 0;    ///< of the rank where it was most, waits for the others included
  double exposed_ms = 0;          ///< the part of it that backward did not hide, of the rank where it was most
};

/// Bytes that one replica costs.
struct replica_memory {
  std::size_t values = 0, gradients = 0, optimizer = 0, buckets = 0, partial_sums = 0, scratch = 0;
};

/// `bytes` for people: "428 bytes", "64.0 KiB", "1.3 MiB".
std::string readable_bytes(std::size_t bytes);

class report {
 public:
  using clock = std::chrono::steady_clock::time_point (*)();
  enum class output { terminal, plain };

  /// `out` must outlive the report. Tests bring a clock of their own.
  report(std::ostream& out, output kind, clock now = std::chrono::steady_clock::now) : out_(out), kind_(kind), now_(now) {}

  /// A line (or several) of text; a progress bar makes way for it.
  void say(const std::string& text);

  /// `done` of `all` batches of an epoch are trained. Costs nothing but a look at the clock, most of the time.
  void progress(int epoch, int epochs, std::size_t done, std::size_t all);

  void epoch(const epoch_summary& summary, int epochs);

  void memory(const replica_memory& memory);

 private:
  std::ostream& out_;
  output kind_;
  clock now_;
  std::chrono::steady_clock::time_point drawn_{};
  bool bar_stands_ = false;
};

/// Whether standard output is a terminal.
report::output standard_output_kind();

}  // namespace fashion
