// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

#include "examples/fashion/strategies.hpp"

#include "examples/fashion/strategies_table.hpp"
#include "gradsync/comm/threads.hpp"

namespace fashion {

std::vector<std::string> strategy_names() {
  std::vector<std::string> names;
  for (const auto& e : strategy_entries<gradsync::thread_communicator>) names.push_back(e.name);
  return names;
}

template gradsync::collective<gradsync::thread_communicator> named_strategy(const std::string& name, gradsync::thread_communicator& comm);

}  // namespace fashion
