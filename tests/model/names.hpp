// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

// The names of what is found in a model, in the order in which it is found.
#pragma once

#include <string>
#include <vector>

#include "gradsync/model/for_each_parameter.hpp"
#include "gradsync/model/for_each_state.hpp"

namespace test {

using names = std::vector<std::string>;

// Of tied parameters all names, one after the other.
inline names names_of(gradsync::series_view<gradsync::parameter> parameters) {
  names all;
  for (const auto& p : parameters)
    for (const auto& a : p.aliases) all.push_back(a.name);
  return all;
}

inline names names_of(gradsync::series_view<gradsync::state_entry> states) {
  names all;
  for (const auto& s : states) all.push_back(s.name);
  return all;
}

template <class... Model>
names names_in(Model&... model) {
  return names_of(gradsync::parameters_of(model...));
}

}  // namespace test
