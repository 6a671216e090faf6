// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

#include "gradsync/comm/own_values.hpp"

#include <doctest/doctest.h>

#include <vector>

#include "gradsync/core/error.hpp"

using namespace gradsync;

namespace {

// Rank 1 of 5. The others' values are what the test says; it notes what is asked for.
struct told_by_the_test : own_values<told_by_the_test> {
  int rank() const { return 1; }
  int size() const { return 5; }
  place place_of(int rank) const { return {.rank = rank, .step = -1, .bucket = -1, .parameter = {}}; }

  using own_values::choose;
  using own_values::split_part;

  std::vector<int> theirs{}, calls{};
  std::size_t count = 0;

  template <class T>
  void combine(std::span<T> values, reduce_op, int call) {
    calls.push_back(call);
    count = values.size();
    for (std::size_t i = 0; i < theirs.size(); ++i) values[i] = static_cast<T>(values[i] + static_cast<T>(theirs[i]));
  }
  void spread(const buffer_view& values, int root) {
    calls.push_back(detail::call_of_broadcast(root));
    count = values.count();
  }
};

}  // namespace

TEST_CASE("each call says what is asked for, and for how many values") {
  told_by_the_test comm;
  std::vector<double> many(7);
  comm.all_reduce(std::span(many), reduce_op::max);
  CHECK(comm.count == 7);
  comm.theirs = {40};
  CHECK(comm.all_reduce(2) == 42);
  comm.theirs = {};
  comm.broadcast(std::span(many), 3);
  CHECK(comm.count == 7);
  CHECK(comm.broadcast(1.5f) == 1.5f);
  comm.barrier();
  CHECK(comm.count == 0);
  CHECK(comm.calls == std::vector<int>{detail::call_of(reduce_op::max), detail::call_of(reduce_op::sum), detail::call_of_broadcast(3),
                                       detail::call_of_broadcast(0), detail::call_of_barrier});
}

TEST_CASE("a root that is no rank is refused before anything is sent") {
  told_by_the_test comm;
  for (const int root : {-1, 5})
    CHECK_THROWS_WITH_AS(comm.broadcast(1, root), ("gradsync[rank 1]: broadcast from rank " + std::to_string(root) + " of 5").c_str(),
                         usage_error);
  CHECK(comm.calls.empty());
}

TEST_CASE("a part has the ranks of one color by key, then by rank, and learns the largest number") {
  told_by_the_test comm;
  comm.theirs = {7, 3, 10, 0, 0, 0, 7, -1, 30, 8, 0, 99, 7, 3, 20};  // color, key, number; rank 1's own come to the zeros
  const told_by_the_test::split_part p = comm.choose(7, 3, 15);
  CHECK(std::vector<int>(p.members.begin(), p.members.end()) == std::vector<int>{2, 0, 1, 4});
  CHECK(p.rank == 2);
  CHECK(p.number == 99);
  CHECK(comm.calls == std::vector<int>{detail::call_of_split});

  const told_by_the_test::split_part alone = comm.choose(5, 0, 100);
  CHECK((alone.members.size() == 1 && alone.members[0] == 1 && alone.rank == 0 && alone.number == 100));
}
