// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0
#include "gradsync/sync/start_values.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

#include "gradsync/comm/threads.hpp"
#include "gradsync/model/for_each_parameter.hpp"
#include "gradsync/model/for_each_state.hpp"
#include "gradsync/model/state.hpp"

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
      broadcast_values(comm, parameters_of(net, grads), {});
      CHECK(net.a == std::vector<float>(70, 1));
      CHECK(net.b == std::vector<double>{1, 2, 3});
      CHECK(net.c == std::vector<float>{1});
      CHECK(grads.a == std::vector<float>(70, mine));
    });
}

TEST_CASE("states of every element type go with them, also alone") {
  struct param {
    std::vector<float> value, grad;
  };
  struct normed {
    param scale;
    state<std::vector<float>> mean;
    state<long long> batches;
    state<bool> warm;
    frozen<param> embedding;
    state<std::vector<std::uint16_t>> none;
  };
  for (const bool alone : {false, true})
    thread_group(3).run([&](auto& comm) {
      const auto mine = static_cast<float>(comm.rank() + 1);
      normed net{.scale = {{mine}, {mine}},
                 .mean = {{mine, 2 * mine}},
                 .batches = {comm.rank() + (1LL << 40)},
                 .warm = {comm.rank() == 0},
                 .embedding = {{{mine, mine}, {mine}}},
                 .none = {}};
      broadcast_values(comm, alone ? series<parameter>() : parameters_of(net), states_of(net));
      CHECK(net.scale.value == std::vector<float>{alone ? mine : 1});
      CHECK(net.scale.grad == std::vector<float>{mine});
      CHECK(net.mean.value == std::vector<float>{1, 2});
      CHECK(net.batches == 1LL << 40);
      CHECK(net.warm);
      CHECK(net.embedding->value == std::vector<float>{1, 1});
    });
}
