// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// What can be asked of `allreduce` on the command line.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace bench {

struct options {
  int ranks = 2;  ///< threads; processes are counted by their launcher
  std::vector<std::string> strategies{"native"};
  std::size_t least_bytes = 256, most_bytes = std::size_t{64} << 20;
  std::size_t factor = 4;
  int samples = 21;                   ///< of each cell, one after the other
  bool mean = false;                  ///< divides by the number of ranks, as gradients need it; else the sum
  bool hot = true, produced = false;  ///< back to back, and between a producer and a consumer
  std::string json, plot;             ///< files; empty: none
};

struct command_line {
  options chosen;
  std::string text;   ///< help, version or what is wrong, without a line end; empty: measure
  int exit_code = 0;  ///< 2 for a mistake
};

/// Of a program of this name. Never throws for what the user typed.
command_line parse_command_line(const char* program, int argc, const char* const* argv);

}  // namespace bench
