// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// The strategies that can be asked for by name. A source of their own: each is a template, and all of them take a while to compile.
///
///     gradsync::synchronizer sync{net, fashion::named_strategy("tree", comm)};
#pragma once

#include <string>
#include <vector>

#include "gradsync/collective/collective.hpp"

namespace fashion {

/// The first one is the default.
std::vector<std::string> strategy_names();

/// `std::out_of_range` if it is none of the names. Throws what `collective` throws. Compiled for threads in strategies.cpp.
template <class Communicator>
gradsync::collective<Communicator> named_strategy(const std::string& name, Communicator& comm);

}  // namespace fashion
