// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

// What belongs to a model and is not trained: given at the start, never summed, given again on demand.
#include <doctest/doctest.h>

#include <atomic>
#include <string>
#include <vector>

#include "gradsync/gradsync.hpp"
#include "tests/sync/models.hpp"

using namespace gradsync;

namespace {

struct batch_norm {
  test::param scale;
  state<std::vector<float>> mean;
  state<long> batches;
};
struct net_type {
  frozen<test::param> embedding;
  std::vector<batch_norm> norms;
};

net_type make_net(float x, std::size_t norms = 2) {
  net_type net{.embedding = {{std::vector<float>(8, x), std::vector<float>(8, x)}}, .norms = {}};
  for (std::size_t i = 0; i < norms; ++i) net.norms.push_back({{std::vector<float>(4, x), {}}, {std::vector<float>(4, x)}, {long(x)}});
  return net;
}

bool has_states(const net_type& net, float x) {
  bool all = net.embedding->value == std::vector<float>(8, x);
  for (const batch_norm& n : net.norms) all = all && n.mean.value == std::vector<float>(4, x) && n.batches.value == long(x);
  return all;
}

}  // namespace

TEST_CASE("states are rank 0's at the start, are not summed, and are rank 0's again when asked for") {
  for (const int ranks : {1, 3})
    thread_group(ranks).run([](auto& comm) {
      const auto mine = static_cast<float>(comm.rank() + 5);
      net_type net = make_net(mine);
      synchronizer sync{net, comm};
      CHECK(sync.parameters().size() == 2);  // the scales
      CHECK(has_states(net, 5));
      CHECK(net.embedding->grad == std::vector<float>(8, mine));
      for (int update = 0; update < 3; ++update) {
        for (batch_norm& n : net.norms) {
          n.scale.grad.assign(4, static_cast<float>(comm.rank()));
          n.mean->assign(4, mine);
          n.batches = long(mine);
        }
        net.embedding->value.assign(8, mine);
        sync.mark_ready(net);
        sync.finish();
        CHECK(net.norms[1].scale.grad == std::vector<float>(4, static_cast<float>(comm.size() - 1) / 2));
        CHECK(has_states(net, mine));  // each rank keeps its own
        sync.broadcast_state();
        CHECK(has_states(net, 5));
      }
      CHECK(sync.memory().states == 8 * 4 + 2 * (4 * 4 + sizeof(long)));
      CHECK(sync.memory().values == 2 * 4 * 4);
    });
}

TEST_CASE("states are asked for between updates, in a model that has not changed") {
  thread_group(2).run([](auto& comm) {
    net_type net = make_net(1);
    synchronizer sync{net, comm};
    sync.begin({.micro_step = micro_step::more});
    CHECK_THROWS_WITH_AS(sync.broadcast_state(), doctest::Contains("inside an update"), usage_error);
    for (batch_norm& n : net.norms) n.scale.grad.assign(4, 1);
    sync.mark_all_ready();
    sync.finish();
    CHECK_THROWS_WITH_AS(sync.broadcast_state(), doctest::Contains("inside an update"), usage_error);
    sync.contribute_nothing();
    CHECK_NOTHROW(sync.broadcast_state());
    net.norms.pop_back();
    CHECK_THROWS_WITH_AS(sync.broadcast_state(), doctest::Contains("\"norms[1].scale\": has gone"), usage_error);
  });
}

TEST_CASE("ranks whose states differ in length do not start, and do not go on") {
  const auto all_throw = [](const std::string& text, auto&& body) {
    std::atomic<int> seen{0};
    CHECK_THROWS_AS(thread_group(3).run([&](auto& comm) {
      try {
        body(comm);
      } catch (const error& e) {
        seen += std::string(e.what()).find(text) != std::string::npos;
        throw;
      }
    }),
                    mismatch_error);
    CHECK(seen == 3);
  };
  all_throw("\"norms[0].mean\": has 5 elements of float32 (state), rank 0 has 4 elements of float32 (state); build the model",
            [](auto& comm) {
              net_type net = make_net(1);
              if (comm.rank() == 1) net.norms[0].mean->resize(5);
              synchronizer sync{net, comm};
            });
  all_throw("make the same calls with the same lengths on every rank", [](auto& comm) {
    net_type net = make_net(1);
    synchronizer sync{net, comm};
    if (comm.rank() == 1) net.norms[0].mean->resize(5);
    sync.broadcast_state();
  });
}
