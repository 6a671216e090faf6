// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

#include "examples/fashion/metrics_file.hpp"

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>  // slow to compile: here, and nowhere else
#include <stdexcept>

namespace fashion {

// "Ordered", because a person reads these lines too.

std::string json_line(const epoch_summary& s) {
  return nlohmann::ordered_json{{"epoch", s.epoch},
                                {"loss", s.loss},
                                {"accuracy", s.accuracy},
                                {"samples_per_second", s.samples_per_second},
                                {"communication_ms", s.communication_ms},
                                {"exposed_ms", s.exposed_ms}}
      .dump();
}

std::string json_line(const final_summary& s) {
  return nlohmann::ordered_json{{"final", true},          {"ranks", s.ranks},       {"shards", s.shards},
                                {"strategy", s.strategy}, {"accuracy", s.accuracy}, {"fingerprint", s.fingerprint}}
      .dump();
}

std::ofstream open_output(const std::string& option, const std::string& path) {
  errno = 0;
  std::ofstream file{path};
  if (!file) {
    const std::string reason = errno == 0 ? "" : std::string{": "} + std::strerror(errno);
    throw std::runtime_error{option + ": " + path + " cannot be written" + reason};
  }
  return file;
}

metrics_file::metrics_file(const std::string& path) : path_(path) {
  if (!path.empty()) file_ = open_output("--metrics", path);
}

void metrics_file::write(const std::string& line) {
  if (path_.empty()) return;
  file_ << line << '\n' << std::flush;
  if (!file_) throw std::runtime_error{"--metrics: " + path_ + " could not be written to its end"};
}

}  // namespace fashion
