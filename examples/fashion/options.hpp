// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// What can be asked for on the command line.
///
///     fashion::command_line asked = fashion::parse_command_line(argc, argv);
///     if (!asked.text.empty()) ... // nothing to train: show the text, leave with the exit code
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace fashion {

enum class optimizer_kind { sgd, adamw };

struct options {
  std::string data = "/usr/share/datasets/fashion-mnist";  ///< the folder of the four IDX files
  int ranks = 4;
  int epochs = 10;
  std::size_t batch = 256;  ///< examples of an update, over all ranks
  std::size_t shards = 8;   ///< micro-batches of an update, over all ranks
  std::string strategy = "native";
  std::size_t bucket_bytes = std::size_t{64} << 10;
  optimizer_kind optimizer = optimizer_kind::sgd;
  double learning_rate = 0.05;  ///< of the first epoch; it falls in a straight line from there
  std::uint64_t seed = 1;
  std::string metrics;  ///< a file for JSON lines; empty: none
  std::string trace;    ///< a file for a Chrome trace; empty: none
};

struct command_line {
  options chosen;
  std::string text;   ///< help, version or the one line that says what is wrong, without a line end; empty: train
  int exit_code = 0;  ///< 0 for help and version, 2 for a mistake: where the text belongs on stderr
};

/// Never throws for what the user typed. Relative paths come back relative to the folder in which the user stands: `bazel run` starts the
/// program elsewhere, and says in the environment variable BUILD_WORKING_DIRECTORY where it was called.
command_line parse_command_line(int argc, const char* const* argv);

}  // namespace fashion
