// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// The strategies themselves, for a source that compiles them for its communicator.
///
///     template gradsync::collective<communicator> fashion::named_strategy(const std::string& name, communicator& comm);
#pragma once

#include <stdexcept>
#include <string>

#include "examples/fashion/strategies.hpp"
#include "gradsync/collective/automatic.hpp"  // and most of the others
#include "gradsync/collective/ring.hpp"

namespace fashion {

template <class Communicator>
struct strategy_entry {
  const char* name;
  gradsync::collective<Communicator> (*make)(Communicator&);
};

template <class Communicator, class Strategy>
constexpr strategy_entry<Communicator> entry_of() {
  return {Strategy{}.name(), [](Communicator& comm) { return gradsync::collective<Communicator>{comm, Strategy{}}; }};
}

template <class Communicator>
inline constexpr strategy_entry<Communicator> strategy_entries[] = {
    entry_of<Communicator, gradsync::native>(),
    entry_of<Communicator, gradsync::automatic>(),
    entry_of<Communicator, gradsync::direct>(),
    entry_of<Communicator, gradsync::double_tree>(),
    entry_of<Communicator, gradsync::halving_doubling>(),
    entry_of<Communicator, gradsync::ring>(),
    entry_of<Communicator, gradsync::recursive_doubling>(),
    entry_of<Communicator, gradsync::tree>(),
};

template <class Communicator>
gradsync::collective<Communicator> named_strategy(const std::string& name, Communicator& comm) {
  for (const auto& e : strategy_entries<Communicator>)
    if (name == e.name) return e.make(comm);
  throw std::out_of_range{"no strategy is called " + name};
}

}  // namespace fashion
