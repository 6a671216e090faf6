// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0
#include "gradsync/sync/start_values.hpp"

#include <doctest/doctest.h>

#include <vector>

#include "gradsync/comm/threads.hpp"
#include "gradsync/model/for_each_parameter.hpp"

using namespace gradsync;

namespace {

struct mixed {
  std::vector<float> a;
  std::vector<double> b;
  std::vector<float> none, c;
};

}  // namespace

TEST_CASE("every rank has rank 0's values afterwards, of both types, and gradients are left alone") {
  for (const int ranks : {1, 2, 5})
    thread_group(ranks).run([](auto& comm) {
      const auto mine = static_cast<float>(comm.rank() + 1);
      mixed net{std::vector<float>(70, mine), {mine, 2, 3}, {}, {mine}}, grads = net;
      broadcast_values(comm, parameters_of(net, grads));
      CHECK(net.a == std::vector<float>(70, 1));
      CHECK(net.b == std::vector<double>{1, 2, 3});
      CHECK(net.c == std::vector<float>{1});
      CHECK(grads.a == std::vector<float>(70, mine));
    });
}
