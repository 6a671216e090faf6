// expect: gradsync: the inner strategy of hierarchical needs a reduce-scatter half
// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

#include "gradsync/collective/hierarchical.hpp"
#include "gradsync/collective/tree.hpp"

int main() {
  // A tree leaves all sums on rank 0: there are no shards for the outer strategy.
  const gradsync::hierarchical<gradsync::tree, gradsync::ring> strategy{.group = 2};
  return strategy.rounds(4);
}
