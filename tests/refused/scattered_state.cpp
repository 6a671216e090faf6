// expect: gradsync: these numbers of a state are not contiguous
// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

#include <vector>

#include "gradsync/model/for_each_state.hpp"

struct net {
  gradsync::state<std::vector<bool>> used;
};

int main() {
  net model{};
  return static_cast<int>(gradsync::states_of(model).size());
}
