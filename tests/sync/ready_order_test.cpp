// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0
#include "gradsync/sync/ready_order.hpp"

#include <doctest/doctest.h>

#include <initializer_list>
#include <vector>

#include "gradsync/comm/threads.hpp"

using namespace gradsync;

namespace {

using order = std::vector<std::uint32_t>;

ready_order noted(std::initializer_list<order> calls, std::size_t parameters) {
  ready_order seen(parameters);
  for (const order& call : calls) {
    for (const std::uint32_t i : call) seen.note(i);
    seen.end_call();
  }
  return seen;
}

order alone(std::initializer_list<order> calls) {
  order got;
  thread_group(1).run([&](auto& comm) {
    ready_order seen = noted(calls, 4);
    const auto all = seen.agreed(comm);
    got.assign(all.begin(), all.end());
  });
  return got;
}

}  // namespace

TEST_CASE("calls count in their order, and what one call marks in reverse model order") {
  CHECK(alone({{0}, {1}, {2}, {3}}) == order{0, 1, 2, 3});
  CHECK(alone({{0, 1, 2, 3}}) == order{3, 2, 1, 0});
  CHECK(alone({{2, 3}, {0, 1}}) == order{3, 2, 1, 0});
  CHECK(alone({{0, 3}, {}, {2, 1}}) == order{3, 0, 2, 1});
}

TEST_CASE("all ranks get rank 0's order") {
  thread_group(4).run([](auto& comm) {
    ready_order seen = comm.rank() == 0 ? noted({{2}, {0}, {1}}, 3) : noted({{0}, {1}, {2}}, 3);
    const auto all = seen.agreed(comm);
    CHECK(order(all.begin(), all.end()) == order{2, 0, 1});
  });
}

TEST_CASE("it watches once, or not at all") {
  ready_order seen = noted({{0}}, 2);
  CHECK(seen.watches());
  seen.stop();
  CHECK_FALSE(seen.watches());
  seen.note(1);
  seen.end_call();
  CHECK_FALSE(ready_order(0).watches());
}
