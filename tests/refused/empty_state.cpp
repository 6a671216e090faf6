// expect: gradsync: this state holds no number
// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

#include <string>

#include "gradsync/model/for_each_state.hpp"

struct net {
  gradsync::state<std::string> name;
};

int main() {
  net model{};
  return static_cast<int>(gradsync::states_of(model).size());
}
