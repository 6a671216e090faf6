// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

// What the step contract refuses: each wrong call is one error with the parameter's path, and changes nothing.
#include "gradsync/synchronizer.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <limits>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "gradsync/collective/ring.hpp"
#include "gradsync/comm/threads.hpp"
#include "tests/sync/models.hpp"

using namespace gradsync;

namespace {

struct net_type {
  test::param weight, bias;
};

net_type make_net(std::size_t weight, std::size_t bias) { return {{std::vector<float>(weight), {}}, {std::vector<float>(bias), {}}}; }

void ones(net_type& net) {
  net.weight.grad.assign(net.weight.value.size(), 1);
  net.bias.grad.assign(net.bias.value.size(), 1);
}

// Runs `body(comm, net, sync)` on two ranks, in both progress modes.
template <class F>
void on_two_ranks(F&& body) {
  for (progress how : {progress::at_marks, progress::thread})
    thread_group(2).run([&](auto& comm) {
      net_type net = make_net(20, 3);
      synchronizer sync{net, comm, {.bucket_bytes = 0, .progress = how}};
      body(comm, net, sync);
    });
}

}  // namespace

TEST_CASE("a second finish() without begin or marks is an error, not a second reduction") {
  on_two_ranks([](auto& comm, net_type& net, auto& sync) {
    CHECK_THROWS_WITH_AS(sync.finish(), doctest::Contains("finish() without a micro-step"), usage_error);
    net.weight.grad.assign(20, static_cast<float>(comm.rank()));
    net.bias.grad.assign(3, 1);
    sync.mark_all_ready();
    sync.finish();
    CHECK(net.weight.grad[0] == 0.5f);
    const std::string where = "gradsync[rank " + std::to_string(comm.rank()) + "] step 1: finish() without a micro-step";
    CHECK_THROWS_WITH_AS(sync.finish(), doctest::Contains(where.c_str()), usage_error);
    CHECK(net.weight.grad[0] == 0.5f);
  });
}

TEST_CASE("a parameter marked twice is named, and the step goes on") {
  on_two_ranks([](auto&, net_type& net, auto& sync) {
    ones(net);
    sync.mark_ready(net.bias);
    CHECK_THROWS_WITH_AS(sync.mark_ready(net.bias), doctest::Contains("\"bias\": marked ready twice"), usage_error);
    sync.mark_ready(net.weight);
    CHECK(sync.finish().weight == 2);
  });
}

TEST_CASE("a parameter that was not marked is named, and can still be marked") {
  on_two_ranks([](auto&, net_type& net, auto& sync) {
    ones(net);
    sync.mark_ready(net.bias);
    CHECK_THROWS_WITH_AS(sync.finish(), doctest::Contains("\"weight\": was not marked ready before finish()"), usage_error);
    sync.mark_ready(net.weight);
    CHECK(sync.finish().weight == 2);
  });
}

TEST_CASE("an object that is no parameter of the model is refused") {
  on_two_ranks([](auto&, net_type& net, auto& sync) {
    net_type copy = net;
    CHECK_THROWS_WITH_AS(sync.mark_ready(copy.weight), doctest::Contains("no parameter of the synchronizer's model"), usage_error);
    CHECK_THROWS_WITH_AS(sync.finish(), doctest::Contains("without a micro-step"), usage_error);  // the step has not begun
  });
}

TEST_CASE("a gradient of the wrong length is named with both lengths") {
  on_two_ranks([](auto&, net_type& net, auto& sync) {
    ones(net);
    net.weight.grad.resize(19);
    CHECK_THROWS_WITH_AS(sync.mark_ready(net.weight), doctest::Contains("\"weight\": the gradient has 19 elements, the value had 20"),
                         usage_error);
    net.weight.grad.clear();
    CHECK_THROWS_WITH_AS(sync.mark_ready(net.weight), doctest::Contains("has 0 elements"), usage_error);
    ones(net);
    sync.mark_all_ready();
    CHECK(sync.finish().weight == 2);
  });
}

TEST_CASE("begin inside a micro-step, and weights that are none") {
  on_two_ranks([](auto&, net_type& net, auto& sync) {
    CHECK_THROWS_WITH_AS(sync.begin({.weight = -1}), doctest::Contains("weight of a micro-step is -1"), usage_error);
    CHECK_THROWS_AS(sync.begin({.weight = std::numeric_limits<double>::quiet_NaN()}), usage_error);
    CHECK_THROWS_AS(sync.begin({.weight = std::numeric_limits<float>::infinity()}), usage_error);
    sync.begin({.weight = 3});
    CHECK_THROWS_WITH_AS(sync.begin(), doctest::Contains("begin() inside a micro-step"), usage_error);
    CHECK_THROWS_AS(sync.contribute_nothing(), usage_error);
    ones(net);
    sync.mark_all_ready();
    CHECK(sync.finish().weight == 6);
  });
}

TEST_CASE("a part may be a parameter, its value, its gradient, or the whole model") {
  on_two_ranks([](auto&, net_type& net, auto& sync) {
    ones(net);
    sync.mark_ready(net.bias.value);
    sync.mark_ready(net.weight.grad);
    CHECK(sync.finish().updated);
    sync.mark_ready(net);
    CHECK(sync.finish().updated);
    CHECK(sync.completed_buckets() == 2);
  });
}

TEST_CASE("a tied parameter is ready at its last alias's mark") {
  struct view {
    std::span<float> value, grad;
  };
  struct tied {
    view embedding;
    test::param middle;
    view output;
  };
  for (progress how : {progress::at_marks, progress::thread})
    thread_group(2).run([&](auto& comm) {
      std::vector<float> value(8), grad(8);
      tied net{{value, grad}, {std::vector<float>(4), {}}, {value, grad}};
      synchronizer sync{net, comm, {.bucket_bytes = 0, .progress = how}};
      CHECK(sync.parameters().size() == 2);
      for (int m = 0; m < 2; ++m) {
        sync.begin({.micro_step = m == 0 ? micro_step::more : micro_step::last});
        grad.assign(8, 1);
        sync.mark_ready(net.output);
        net.middle.grad.assign(4, 1);
        sync.mark_ready(net.middle);
        CHECK_THROWS_WITH_AS(sync.finish(), doctest::Contains("once for each of embedding output"), usage_error);
        grad.assign(8, static_cast<float>(3 + comm.rank()));
        sync.mark_ready(net.embedding);
        CHECK_THROWS_WITH_AS(sync.mark_ready(net.output), doctest::Contains("more than 2 times"), usage_error);
        sync.finish();
      }
      CHECK(grad[7] == 3.5f);
    });
}

TEST_CASE("an update that no bucket of was sent may be given up by all ranks") {
  thread_group(2).run([](auto& comm) {
    net_type net = make_net(20, 3);
    {
      synchronizer sync{net, comm};
      sync.begin({.micro_step = micro_step::more});
      ones(net);
      sync.mark_all_ready();
      sync.finish();
    }
    synchronizer again{net, comm};
    again.mark_all_ready();
    CHECK(again.finish().weight == 2);
  });
}

TEST_CASE("a model without parameters is refused with a recipe") {
  struct nothing {
    std::vector<test::param> layers;
  };
  CHECK_THROWS_WITH_AS(thread_group(1).run([](auto& comm) {
    nothing net;
    synchronizer sync{net, comm};
  }),
                       doctest::Contains("no parameter"), usage_error);
}

TEST_CASE("ranks that differ end in one mismatch_error on all ranks that names the first difference") {
  auto expect = [](const char* text, auto&& differ) {
    std::atomic<int> seen{0};
    CHECK_THROWS_AS(thread_group(3).run([&](auto& comm) {
      try {
        differ(comm, comm.rank() == 2);
      } catch (const mismatch_error& e) {
        CHECK_MESSAGE(std::string(e.what()) == text, e.what());
        ++seen;
        throw;
      }
    }),
                    mismatch_error);
    CHECK(seen == 3);
  };
  expect(
      "gradsync[rank 2] \"bias\": has 4 elements of float32, rank 0 has 3 elements of float32; build the model in the same order on every "
      "rank",
      [](auto& comm, bool odd) {
        net_type net = make_net(20, odd ? 4 : 3);
        synchronizer sync{net, comm};
      });
  expect("gradsync[rank 2]: bucket_bytes is 77, rank 0 has 26214400; give every rank the same options", [](auto& comm, bool odd) {
    net_type net = make_net(20, 3);
    synchronizer sync{net, comm, {.bucket_bytes = odd ? std::size_t{77} : std::size_t{25 << 20}}};
  });
  expect(
      "gradsync[rank 2]: strategy is ring in 4 rounds of 3 chunks, rank 0 has native in 2 rounds of 3 chunks; give every rank the same "
      "options",
      [](auto& comm, bool odd) {
        net_type net = make_net(20, 3);
        synchronizer sync{net, odd ? collective{comm, ring{}} : collective{comm}};
      });
}

TEST_CASE("memory: values, gradients, buckets and partial sums") {
  thread_group(1).run([](auto& comm) {
    net_type net = make_net(1000, 10);
    synchronizer in_place{net, comm};
    CHECK(in_place.memory().values == 4040);
    CHECK(in_place.memory().gradients == 4040);
    CHECK(in_place.memory().buckets == 0);
    CHECK(in_place.memory().partial_sums == 0);
    for (int m = 0; m < 5; ++m) {
      in_place.begin({.micro_step = m < 4 ? micro_step::more : micro_step::last});
      ones(net);
      in_place.mark_all_ready();
      in_place.finish();
    }
    CHECK(in_place.memory().partial_sums == 3 * (4032 + 64));  // levels of 1, 2 and 4 micro-steps, each parameter on 64 bytes
    synchronizer packed{net, comm, {.layout = layout::packed}};
    CHECK(packed.memory().buckets == 4032 + 64);
  });
}

TEST_CASE("a first mark that is refused has not begun the micro-step") {
  on_two_ranks([](auto&, net_type& net, auto& sync) {
    net.bias.grad.resize(7);
    CHECK_THROWS_AS(sync.mark_ready(net.bias), usage_error);
    ones(net);
    sync.begin({.weight = 3});
    sync.mark_all_ready();
    CHECK(sync.finish().weight == 6);
  });
}

TEST_CASE("where one of several parameters is refused, those before it are marked, and the rest can follow") {
  on_two_ranks([](auto&, net_type& net, auto& sync) {
    ones(net);
    net.bias.grad.resize(7);
    CHECK_THROWS_AS(sync.mark_ready(net), usage_error);  // weight is marked, bias is not
    net.bias.grad.assign(3, 1);
    sync.mark_all_ready();
    CHECK(sync.finish().weight == 2);
  });
}

TEST_CASE("views that were adopted look at nothing when their storage has gone") {
  struct view {
    std::span<float> value, grad;
  };
  thread_group(2).run([](auto& comm) {
    std::vector<float> values(8), grads(8);
    struct {
      view a;
    } net{{values, grads}};
    {
      synchronizer sync{net, comm, {.layout = layout::adopted}};
      CHECK(net.a.grad.size() == 8);
      CHECK(net.a.grad.data() != grads.data());
    }
    CHECK(net.a.grad.empty());
  });
}

TEST_CASE("after a failure begin() tells of it again") {
  for (progress how : {progress::at_marks, progress::thread})
    CHECK_THROWS_AS(thread_group(2).run([&](auto& comm) {
      net_type net = make_net(20, 3);
      synchronizer sync{net, comm, {.progress = how}};
      if (comm.rank() == 1) throw std::runtime_error("disk full");
      ones(net);
      sync.mark_all_ready();
      CHECK_THROWS_AS(sync.finish(), transport_error);
      CHECK_THROWS_WITH_AS(sync.begin(), doctest::Contains("disk full"), transport_error);
    }),
                    std::runtime_error);
}

TEST_CASE("a model that changes between steps is refused by name, before anything of it is read") {
  for (progress how : {progress::at_marks, progress::thread})
    for (layout where : {layout::in_place, layout::packed})
      thread_group(2).run([&](auto& comm) {
        test::layers net = test::make_layers({4, 5, 6});
        synchronizer sync{net, comm, {.layout = where, .progress = how}};
        auto step = [&] {
          for (test::param& p : net.layer) p.grad.assign(p.value.size(), 1);
          sync.mark_all_ready();
          CHECK(sync.finish().updated);
        };
        step();
        const std::string here = "gradsync[rank " + std::to_string(comm.rank()) + "] step 1 ";
        test::param last = std::move(net.layer.back());
        net.layer.pop_back();
        const std::string gone = here + "\"layer[2]\": has gone since the synchronizer was made";
        CHECK_THROWS_WITH_AS(sync.begin(), doctest::Contains(gone.c_str()), usage_error);
        CHECK_THROWS_WITH_AS(sync.mark_all_ready(), doctest::Contains(gone.c_str()), usage_error);
        CHECK_THROWS_WITH_AS(sync.contribute_nothing(), doctest::Contains(gone.c_str()), usage_error);
        CHECK_THROWS_WITH_AS(sync.mark_ready(net.layer[0]), doctest::Contains(gone.c_str()), usage_error);
        net.layer.push_back(std::move(last));  // there was room for it: it is where it was
        step();
      });
}

TEST_CASE("a layer that moved is told from one that is no part of the model") {
  thread_group(2).run([](auto& comm) {
    test::layers net = test::make_layers({4, 5, 6});
    synchronizer sync{net, comm};
    net.layer.reserve(1000);
    net.layer[0].grad.assign(4, 1);
    CHECK_THROWS_WITH_AS(sync.mark_ready(net.layer[0]), doctest::Contains("\"layer[0]\": has moved since"), usage_error);
    CHECK_THROWS_WITH_AS(sync.finish(), doctest::Contains("without a micro-step"), usage_error);
  });
}

TEST_CASE("views that were adopted are emptied where they are now; those that are gone are left alone") {
  struct view {
    std::span<float> value, grad;
  };
  struct views {
    std::vector<view> all;
  };
  thread_group(2).run([](auto& comm) {
    std::vector<float> values(12), grads(12);
    views net;
    for (std::size_t i = 0; i < 3; ++i) net.all.push_back({std::span(values).subspan(4 * i, 4), std::span(grads).subspan(4 * i, 4)});
    {
      synchronizer sync{net, comm, {.layout = layout::adopted}};
      net.all.pop_back();
      net.all.reserve(1000);
      net.all.push_back({std::span(values).first(4), std::span(grads).first(4)});
      CHECK_THROWS_WITH_AS(sync.begin(), doctest::Contains("has moved"), usage_error);
    }
    CHECK((net.all[0].grad.empty() && net.all[1].grad.empty()));
    CHECK(net.all[2].grad.data() == grads.data());
  });
}
