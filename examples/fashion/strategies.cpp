// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

#include "examples/fashion/strategies.hpp"

#include <stdexcept>

#include "gradsync/collective/automatic.hpp"  // and most of the others
#include "gradsync/collective/ring.hpp"

namespace fashion {
namespace {

using communicator = gradsync::thread_communicator;

struct entry {
  const char* name;
  gradsync::collective<communicator> (*make)(communicator&);
};

template <class Strategy>
constexpr entry entry_of() {
  return {Strategy{}.name(), [](communicator& comm) { return gradsync::collective<communicator>{comm, Strategy{}}; }};
}

constexpr entry entries[] = {
    entry_of<gradsync::native>(),
    entry_of<gradsync::automatic>(),
    entry_of<gradsync::direct>(),
    entry_of<gradsync::double_tree>(),
    entry_of<gradsync::halving_doubling>(),
    entry_of<gradsync::ring>(),
    entry_of<gradsync::recursive_doubling>(),
    entry_of<gradsync::tree>(),
};

}  // namespace

std::vector<std::string> strategy_names() {
  std::vector<std::string> names;
  for (const entry& e : entries) names.push_back(e.name);
  return names;
}

gradsync::collective<communicator> named_strategy(const std::string& name, communicator& comm) {
  for (const entry& e : entries)
    if (name == e.name) return e.make(comm);
  throw std::out_of_range{"no strategy is called " + name};
}

}  // namespace fashion
