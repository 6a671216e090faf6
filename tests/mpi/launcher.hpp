// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// Starts the program that a test is about under its launcher: $GRADSYNC_LAUNCHER -np N $GRADSYNC_PROGRAM, which the rule of such tests
/// (bazel/mpi.bzl) has set.
#pragma once

#include <sys/wait.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace mpi_launcher {

struct ending {
  int status = 0;  ///< 128: by a signal
  std::string said{};
  double seconds = 0;

  /// What the given rank has said, up to the end of that line; nothing if it hasn't spoken.
  std::string line_of(int rank) const {
    const std::string text = "\n" + said, begins = "\ngradsync[rank " + std::to_string(rank) + "]";
    const std::size_t at = text.find(begins);
    return at == text.npos ? "" : text.substr(at + 1, text.find('\n', at + 1) - at - 1);
  }
};

inline std::string from_environment(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

/// Thread safe.
inline ending run(const std::string& command) {
  const auto begin = std::chrono::steady_clock::now();
  ending end;
  std::FILE* const pipe = popen(("{ " + command + "\n} 2>&1").c_str(), "r");
  if (pipe == nullptr) return {.status = 127, .said = "popen failed"};
  for (char text[512]; std::fgets(text, sizeof text, pipe) != nullptr;) end.said += text;
  const int status = pclose(pipe);
  end.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128;
  end.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return end;
}

/// With a folder for temporary files of its own: Open MPI's launchers trip over each other in one.
inline ending start(int ranks, const std::string& arguments) {
  const std::string program = from_environment("GRADSYNC_PROGRAM") + " " + arguments;
  return run("export TMPDIR=$(mktemp -d /tmp/mpi.XXXXXX); " + from_environment("GRADSYNC_LAUNCHER") + " -np " + std::to_string(ranks) +
             " " + program + "; status=$?; rm -rf \"$TMPDIR\"; exit $status");
}

/// Else it is MPICH, whose launcher is Hydra.
inline bool is_open_mpi() { return run(from_environment("GRADSYNC_LAUNCHER") + " --version").said.find("HYDRA") == std::string::npos; }

}  // namespace mpi_launcher
