// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

// Buckets that are planned anew from the order in which gradients became ready: they leave earlier, and no bit and no address changes.
#include <doctest/doctest.h>

#include <atomic>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "gradsync/gradsync.hpp"
#include "tests/sync/models.hpp"

using namespace gradsync;

namespace {

template <class T>
struct view {
  std::span<T> value, grad;
};

// Listed in the order in which backward computes them. Views, so that every layout takes them.
struct backward_order {
  std::vector<view<float>> first;
  view<double> middle;
  std::vector<view<float>> rest;
};

// A model with the memory that its views look at.
struct owned {
  owned() {
    for (view<float>* v : views()) v->value = next(floats, 0), v->grad = next(floats, 512);
    net.middle = {std::span(doubles).first(17), std::span(doubles).subspan(32, 17)};
  }
  owned(const owned&) = delete;
  owned& operator=(const owned&) = delete;

  std::vector<view<float>*> views() {
    std::vector<view<float>*> all;
    for (auto* list : {&net.first, &net.rest})
      for (view<float>& v : *list) all.push_back(&v);
    return all;
  }
  std::span<float> next(std::vector<float>& from, std::size_t base) {
    const std::size_t n = counts[at / 2 % counts.size()], begin = base + used[base / 512];
    used[base / 512] += n;
    ++at;
    return std::span(from).subspan(begin, n);
  }

  const std::vector<std::size_t> counts = {5, 64, 1, 0, 130, 33, 80};
  std::size_t at = 0, used[2] = {};
  std::vector<float> floats = std::vector<float>(1024);
  std::vector<double> doubles = std::vector<double>(64);
  backward_order net{std::vector<view<float>>(3), {}, std::vector<view<float>>(4)};
};

template <class Sync>
void mark_forwards(Sync& sync, backward_order& net) {
  for (auto& v : net.first) sync.mark_ready(v);
  sync.mark_ready(net.middle);
  for (auto& v : net.rest) sync.mark_ready(v);
}

void fill(owned& model, std::uint64_t key, bool adds) {
  for (view<float>* v : model.views()) {
    const std::vector<float> x = test::random_floats(++key, v->grad.size());
    for (std::size_t i = 0; i < x.size(); ++i) v->grad[i] = x[i] + (adds ? v->grad[i] : 0);
  }
  const std::vector<float> x = test::random_floats(++key, 17);
  for (std::size_t i = 0; i < 17; ++i) model.net.middle.grad[i] = x[i] + (adds ? model.net.middle.grad[i] : 0);
}

std::vector<double> gradients(owned& model) {
  std::vector<double> all(model.net.middle.grad.begin(), model.net.middle.grad.end());
  for (view<float>* v : model.views()) all.insert(all.end(), v->grad.begin(), v->grad.end());
  return all;
}

std::vector<const void*> addresses(owned& model) {
  std::vector<const void*> all{model.net.middle.grad.data()};
  for (view<float>* v : model.views()) all.push_back(v->grad.data());
  return all;
}

template <class Communicator>
collective<Communicator> uniform_strategy(int which, Communicator& comm) {
  switch (which) {
    case 0: return collective{comm, native{}};
    case 1: return collective{comm, tree{}};
    default: return collective{comm, halving_doubling{}};
  }
}

// The results of three updates on rank 1, one after the other.
std::vector<double> three_updates(int ranks, int which, synchronizer_options options) {
  std::vector<double> results;
  thread_group(ranks).run([&](auto& comm) {
    owned model;
    synchronizer sync{model.net, uniform_strategy(which, comm), options};
    const auto before = addresses(model);
    const bool plain = options.accumulation == accumulation_mode::plain;
    for (int update = 0; update < 3; ++update) {
      CHECK(sync.replanned() == (update > 0 && options.replan != replan::never));
      for (int m = 0; m < 2; ++m) {
        sync.begin({.weight = plain ? 3 : 1 + m + comm.rank(), .micro_step = m == 0 ? micro_step::more : micro_step::last});
        fill(model, static_cast<std::uint64_t>(1000 * update + 100 * comm.rank() + 10 * m), plain && m > 0);
        mark_forwards(sync, model.net);
        sync.finish();
      }
      CHECK(addresses(model) == before);
      const auto now = gradients(model);
      if (comm.rank() == 1) results.insert(results.end(), now.begin(), now.end());
    }
  });
  return results;
}

}  // namespace

TEST_CASE("no bit changes, with any uniform strategy, layout, accumulation, progress and number of ranks") {
  for (int ranks = 2; ranks <= 5; ++ranks)
    for (int which = 0; which < 3; ++which)
      for (progress how : {progress::at_marks, progress::thread})
        for (layout where : {layout::in_place, layout::packed, layout::adopted})
          for (accumulation_mode mode : {accumulation_mode::tree, accumulation_mode::plain}) {
            synchronizer_options options{
                .bucket_bytes = 300, .first_bucket_bytes = 100, .layout = where, .progress = how, .accumulation = mode};
            options.replan = replan::never;
            const auto fixed = three_updates(ranks, which, options);
            options.replan = replan::automatic;
            CHECK_MESSAGE(three_updates(ranks, which, options) == fixed, ranks, " ranks, strategy ", which, ", ", name_of(where));
          }
}

TEST_CASE("a model whose members are listed in backward order: a bucket leaves at its own mark instead of at the last") {
  for (const int ranks : {1, 3})
    thread_group(ranks).run([](auto& comm) {
      test::layers net = test::make_layers({4, 5, 6, 7});
      synchronizer sync{net, comm, {.bucket_bytes = 0, .progress = progress::thread}};
      for (int update = 0; update < 3; ++update)
        for (std::size_t l = 0; l < 4; ++l) {
          net.layer[l].grad.assign(net.layer[l].value.size(), static_cast<float>(comm.rank()));
          sync.mark_ready(net.layer[l]);
          if (update == 0) CHECK((l == 3 || sync.completed_buckets() == 0));
          else
            while (sync.completed_buckets() < l + 1) std::this_thread::yield();  // for ever, if it waited for a later mark
          if (l == 3) sync.finish();
        }
      CHECK(sync.plan().bucket_of == series<std::size_t>{0, 1, 2, 3});
      for (const test::param& p : net.layer)
        for (float g : p.grad) CHECK(g == static_cast<float>(comm.size() - 1) / 2);
    });
}

TEST_CASE("a model that marks layer by layer, last layer first, or everything at once, keeps its plan") {
  struct layer {
    test::param weight, bias;
  };
  struct net_type {
    layer one, two;
  };
  thread_group(2).run([](auto& comm) {
    auto one = [] { return test::param{std::vector<float>(3), std::vector<float>(3)}; };
    net_type net{{one(), one()}, {one(), one()}};
    for (int how = 0; how < 3; ++how) {
      synchronizer sync{net, comm, {.bucket_bytes = 0, .replan = replan::once}};
      if (how == 0) {
        sync.mark_ready(net.two);
        sync.mark_ready(net.one);
        sync.finish();
      } else if (how == 1) {
        sync.mark_all_ready();
        sync.finish();
      } else {
        sync.contribute_nothing();
      }
      CHECK_FALSE(sync.replanned());
      CHECK(sync.plan().bucket_of == series<std::size_t>{3, 2, 1, 0});
    }
  });
}

TEST_CASE("ranks that differ in their order take rank 0's, and go on in whatever order they like") {
  for (progress how : {progress::at_marks, progress::thread})
    thread_group(3).run([&](auto& comm) {
      test::layers net = test::make_layers({4, 5, 6});
      synchronizer sync{net, comm, {.bucket_bytes = 0, .progress = how}};
      const std::size_t orders[3][3] = {{1, 0, 2}, {0, 1, 2}, {2, 0, 1}};
      for (int update = 0; update < 20; ++update) {
        for (std::size_t l : orders[static_cast<std::size_t>(comm.rank() + update) % 3]) {
          net.layer[l].grad.assign(net.layer[l].value.size(), static_cast<float>(comm.rank() + static_cast<int>(l)));
          sync.mark_ready(net.layer[l]);
        }
        sync.finish();
        for (std::size_t l = 0; l < 3; ++l)
          for (float g : net.layer[l].grad) REQUIRE(g == static_cast<float>(1 + l));
      }
      CHECK(sync.plan().bucket_of == series<std::size_t>{1, 0, 2});
    });
}

TEST_CASE("where bits depend on the plan, automatic leaves it alone and once does not") {
  for (replan choice : {replan::automatic, replan::once, replan::never})
    thread_group(3).run([&](auto& comm) {
      test::layers net = test::make_layers({40, 50});
      synchronizer sync{net, collective{comm, ring{}}, {.bucket_bytes = 0, .replan = choice}};
      for (int update = 0; update < 3; ++update) {
        for (test::param& p : net.layer) {
          p.grad.assign(p.value.size(), static_cast<float>(comm.rank()));
          sync.mark_ready(p);
        }
        sync.finish();
        for (const test::param& p : net.layer)
          for (float g : p.grad) REQUIRE(g == 1);
      }
      CHECK(sync.replanned() == (choice == replan::once));
    });
}

TEST_CASE("the plan, the metrics and the trace show it") {
  thread_group(2).run([](auto& comm) {
    recorder times(comm.rank());
    test::layers net = test::make_layers({10, 20, 30});
    synchronizer sync{net, comm, {.bucket_bytes = 130, .first_bucket_bytes = 130, .recorder = &times}};
    const std::string first = sync.describe_plan();
    const metrics before = sync.metrics();
    CHECK(before.buckets.size() == 2);  // layers 2, and 0 with 1
    metrics after_one;
    for (int update = 0; update < 3; ++update) {
      for (std::size_t l : {2, 0, 1}) {
        net.layer[l].grad.assign(net.layer[l].value.size(), 1);
        sync.mark_ready(net.layer[l]);
      }
      sync.finish();
      if (update == 0) after_one = sync.metrics();
      CHECK_FALSE(sync.replanned());  // the order is another, the buckets are not
    }
    CHECK(sync.describe_plan() == first);

    synchronizer other{net, comm, {.bucket_bytes = 0, .recorder = &times}};
    for (int update = 0; update < 2; ++update) {
      for (std::size_t l : {0, 1, 2}) other.mark_ready(net.layer[l]);
      other.finish();
    }
    CHECK(other.describe_plan() ==
          "bucket        bytes  type     layout     parameters\n"
          "     0           40  float32  in place   layer[0]\n"
          "     1           80  float32  in place   layer[1]\n"
          "     2          120  float32  in place   layer[2]\n"
          "planned anew after the first update, from the order in which rank 0's gradients became ready\n");
    CHECK(other.metrics().plans == 2);
    CHECK(other.metrics().updates == 2);
    CHECK(other.metrics().buckets.size() == 3);
    CHECK(other.completed_buckets() == 3);
    REQUIRE(times.steps().size() == 5);
    for (std::size_t s = 0; s < 5; ++s) CHECK(times.steps()[s].replanned == (s == 3));
  });
}

TEST_CASE("a rank that leaves after the first update's last bucket ends the others' wait for the new plan") {
  std::atomic<int> told{0};
  CHECK_THROWS_AS(thread_group(3).run([&](auto& comm) {
    test::layers net = test::make_layers({4, 5});
    synchronizer sync{net, comm, {.bucket_bytes = 0, .progress = progress::thread}};
    for (test::param& p : net.layer) p.grad.assign(p.value.size(), 1);
    for (test::param& p : net.layer) sync.mark_ready(p);
    if (comm.rank() == 2) {
      while (sync.completed_buckets() < 2) std::this_thread::yield();
      throw std::runtime_error("disk full");
    }
    try {
      sync.finish();
    } catch (const transport_error& e) {
      CHECK(std::string(e.what()).find("step 0: rank 2 failed: disk full") != std::string::npos);
      ++told;
      throw;
    }
  }),
                  std::runtime_error);
  CHECK(told == 2);
}

TEST_CASE("a rank that dies in any collective of the start, the updates and the new plan is named by all others, and by every later call") {
  std::uint64_t collectives = 0;
  for (bool struck = true; struck; ++collectives) {
    std::atomic<bool> dead{false};
    std::atomic<int> told{0};
    const auto train = [&](thread_communicator& own) {
      faulty comm{own, fault_plan{.what = fault::kill, .rank = 1, .collective = collectives, .round = 0}};
      owned model;
      try {
        synchronizer sync{model.net, comm, {.bucket_bytes = 256}};
        try {
          for (int update = 0; update < 2; ++update) {
            mark_forwards(sync, model.net);
            sync.finish();
          }
          CHECK(sync.replanned());
        } catch (...) {
          CHECK_THROWS_AS(sync.begin(), error);
          CHECK_THROWS_AS(sync.mark_all_ready(), error);
          CHECK_THROWS_AS(sync.finish(), error);
          CHECK_THROWS_AS(sync.broadcast_state(), error);
          throw;
        }
        own.barrier();  // what a rank has posted before it dies may have been enough for its peers
      } catch (const rank_killed&) {
        dead = true;
        throw;
      } catch (const transport_error& e) {
        told += std::string(e.what()).find("rank 1 failed") != std::string::npos ? 1 : 0;
        throw;
      }
    };
    try {
      thread_group(3).run(train);
    } catch (const rank_killed&) {
      CHECK(dead);
    }
    struck = dead;
    INFO("collective " << collectives);
    CHECK(told == (struck ? 2 : 0));
  }
  CHECK(collectives > 10);
}
