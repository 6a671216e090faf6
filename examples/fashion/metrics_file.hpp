// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// The metrics file: one JSON object a line, one line an epoch, and a last one for the whole run.
///
///     {"epoch":1,"loss":0.53,"accuracy":0.84,"samples_per_second":48000.0,"communication_ms":41.2,"exposed_ms":38.0}
///     {"final":true,"ranks":4,"shards":8,"strategy":"native","accuracy":0.88,"fingerprint":"00c0ffee00c0ffee"}
#pragma once

#include <cstddef>
#include <fstream>
#include <string>

#include "examples/fashion/report.hpp"

namespace fashion {

/// The whole run.
struct final_summary {
  int ranks = 0;
  std::size_t shards = 0;
  std::string strategy;
  double accuracy = 0;      ///< of the last epoch, 0 to 1
  std::string fingerprint;  ///< of the bits of all weights, in hexadecimal
};

/// Numbers that are not finite become null: JSON has no word for them.
std::string json_line(const epoch_summary& summary);
std::string json_line(const final_summary& summary);

/// Opens a file that is to be written, so that a wrong path is told before the work and not after it; what it held is gone.
/// Throws std::runtime_error, whose text names the option and the file.
std::ofstream open_output(const std::string& option, const std::string& path);

/// A file of lines that can be followed while it grows. Without a path it takes every line and keeps none.
class metrics_file {
 public:
  /// Throws as `open_output` does.
  explicit metrics_file(const std::string& path);

  /// Throws std::runtime_error if the line could not be written.
  void write(const std::string& line);

 private:
  std::string path_;
  std::ofstream file_;
};

}  // namespace fashion
