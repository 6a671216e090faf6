// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// Programs of others that sum as we do, started beside us and asked one at a time (peers/serve.hpp).
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace bench {

/// How one is built and started. In the commands {program} is what was built, {folder} where its pipes are, {ranks} the number of ranks.
struct contestant {
  std::string name;
  std::string needs;   ///< a shell command that succeeds where all it takes is there
  std::string build;   ///< a shell command that makes {program}; empty: nothing to build
  std::string start;   ///< a shell command
  bool crowds = true;  ///< can have more ranks than cores
};

/// Ourselves first. `self` is the path of this program, which serves as `self --serve FOLDER RANKS`.
std::vector<contestant> contestants(const std::string& self);

/// One that runs. Ends its processes when it goes.
class running {
 public:
  /// std::runtime_error, with what the build said, if it can't be built or started. `scratch` is a folder for what is made.
  running(const contestant& what, int ranks, const std::string& scratch);
  ~running();
  running(running&& other) noexcept;
  running& operator=(running&&) = delete;

  const std::string& name() const { return name_; }

  /// Seconds. std::runtime_error if it does not answer within a minute.
  double sample(std::size_t bytes, int times, bool produced) { return ask(bytes, times, produced); }
  /// Wrong elements.
  double wrong(std::size_t bytes) { return ask(bytes, 0, false); }

 private:
  double ask(std::size_t bytes, int times, bool produced);

  std::string name_, folder_;
  std::vector<int> pipes_;
  int answer_ = -1, group_ = 0;
};

/// Whether a shell command succeeds, silently.
bool succeeds(const std::string& command);

}  // namespace bench
