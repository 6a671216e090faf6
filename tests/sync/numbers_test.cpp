// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

// The numbers of the step contract, worked by hand, in both progress modes and all layouts.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <span>
#include <vector>

#include "gradsync/gradsync.hpp"
#include "tests/sync/models.hpp"

using namespace gradsync;
using test::layers;
using test::param;

namespace {

struct variant {
  gradsync::progress progress;
  gradsync::layout layout;
};

const std::vector<variant> variants = {{progress::at_marks, layout::in_place},
                                       {progress::thread, layout::in_place},
                                       {progress::at_marks, layout::packed},
                                       {progress::thread, layout::packed}};

// Runs `body(comm, options)` on `ranks` ranks for each variant.
template <class F>
void in_each_variant(int ranks, F&& body) {
  for (const variant& v : variants)
    thread_group(ranks).run([&](auto& comm) { body(comm, synchronizer_options{.layout = v.layout, .progress = v.progress}); });
}

void fill(layers& net, float x) {
  for (param& p : net.layer) p.grad.assign(p.value.size(), x);
}

bool all_equal(const layers& net, float x) {
  for (const param& p : net.layer)
    for (float g : p.grad)
      if (g != x) return false;
  return true;
}

}  // namespace

TEST_CASE("uneven batches give the mean over examples, not the mean of means") {
  in_each_variant(2, [](auto& comm, const synchronizer_options& options) {
    layers net = test::make_layers({3, 5000, 1});
    synchronizer sync{net, comm, options};
    for (int repeat = 0; repeat < 3; ++repeat) {
      sync.begin({.weight = comm.rank() == 0 ? 4 : 1});
      fill(net, comm.rank() == 0 ? 1.0f : 5.0f);
      sync.mark_all_ready();
      const step_result result = sync.finish();
      CHECK(result.updated);
      CHECK(result.weight == 5);
      CHECK(result.step == repeat);
      CHECK(all_equal(net, 9.0f / 5));
    }
  });
}

TEST_CASE("a rank that contributes nothing does not count, and its buffer is not read") {
  in_each_variant(4, [](auto& comm, const synchronizer_options& options) {
    layers net = test::make_layers({7, 300});
    synchronizer sync{net, comm, options};
    if (comm.rank() == 2) {
      fill(net, std::numeric_limits<float>::quiet_NaN());
      CHECK(sync.contribute_nothing().weight == 3);
    } else {
      fill(net, 1);
      sync.mark_all_ready();
      CHECK(sync.finish().weight == 3);
    }
    CHECK(all_equal(net, 1.0f));
  });
}

TEST_CASE("an empty gradient of a rank without data is made, and gets the mean") {
  in_each_variant(3, [](auto& comm, const synchronizer_options& options) {
    layers net = test::make_layers({7, 300});
    synchronizer sync{net, comm, options};
    if (comm.rank() == 1) {
      sync.contribute_nothing();
    } else {
      fill(net, 4);
      sync.mark_all_ready();
      sync.finish();
    }
    CHECK(all_equal(net, 4.0f));
  });
}

TEST_CASE("sums and their token counts over ranks and micro-steps") {
  in_each_variant(2, [](auto& comm, const synchronizer_options& options) {
    layers net = test::make_layers({9, 100});
    synchronizer sync{net, comm, options};
    const float sums[2][2] = {{8, 2}, {3, 12}};
    const int tokens[2][2] = {{8, 1}, {3, 4}};
    for (int m = 0; m < 2; ++m) {
      sync.begin(
          {.weight = tokens[comm.rank()][m], .gradient = gradient_kind::sum, .micro_step = m == 0 ? micro_step::more : micro_step::last});
      fill(net, sums[comm.rank()][m]);
      sync.mark_all_ready();
      const step_result result = sync.finish();
      CHECK(result.updated == (m == 1));
    }
    CHECK(all_equal(net, 1.5625f));
  });
}

TEST_CASE("an update that is cut short divides by what was seen") {
  in_each_variant(2, [](auto& comm, const synchronizer_options& options) {
    layers net = test::make_layers({9, 100});
    synchronizer sync{net, comm, options};
    for (int m = 0; m < 3; ++m) {
      sync.begin({.weight = 2, .micro_step = micro_step::more});
      fill(net, static_cast<float>(m + 1 + 3 * comm.rank()));  // 1 2 3 and 4 5 6
      sync.mark_all_ready();
      sync.finish();
    }
    fill(net, std::numeric_limits<float>::quiet_NaN());
    CHECK(sync.contribute_nothing().weight == 12);
    CHECK(all_equal(net, 3.5f));
  });
}

TEST_CASE("ranks may differ in their number of micro-steps") {
  in_each_variant(2, [](auto& comm, const synchronizer_options& options) {
    layers net = test::make_layers({9});
    synchronizer sync{net, comm, options};
    const int more = comm.rank() == 0 ? 0 : 4;
    for (int m = 0; m <= more; ++m) {
      sync.begin({.micro_step = m < more ? micro_step::more : micro_step::last});
      fill(net, comm.rank() == 0 ? 7.0f : 1.0f);
      sync.mark_all_ready();
      sync.finish();
    }
    CHECK(all_equal(net, 2.0f));
  });
}

TEST_CASE("when nobody contributes the gradients are +0 and the result says so") {
  in_each_variant(3, [](auto& comm, const synchronizer_options& options) {
    layers net = test::make_layers({5, 70});
    fill(net, std::numeric_limits<float>::quiet_NaN());
    synchronizer sync{net, comm, options};
    CHECK(sync.contribute_nothing().weight == 0);
    for (const param& p : net.layer)
      for (float g : p.grad) CHECK((g == 0 && !std::signbit(g)));
  });
}

TEST_CASE("one rank's one mean keeps its bits, whatever its weight") {
  for (const variant& v : variants)
    thread_group(1).run([&](auto& comm) {
      layers net = test::make_layers({1001});
      synchronizer sync{net, comm, {.layout = v.layout, .progress = v.progress}};
      net.layer[0].grad = test::random_floats(3, 1001);
      net.layer[0].grad[7] = std::numeric_limits<float>::denorm_min();
      const std::vector<float> before = net.layer[0].grad;
      sync.begin({.weight = 0.1});
      sync.mark_ready(net);
      CHECK(sync.finish().weight == 0.1);
      CHECK(std::memcmp(before.data(), net.layer[0].grad.data(), before.size() * sizeof(float)) == 0);
    });
}

TEST_CASE("one rank with sums, several micro-steps or no data divides like any other") {
  for (const variant& v : variants)
    thread_group(1).run([&](auto& comm) {
      layers net = test::make_layers({10});
      synchronizer sync{net, comm, {.layout = v.layout, .progress = v.progress}};
      sync.begin({.weight = 4, .gradient = gradient_kind::sum});
      fill(net, 6);
      sync.mark_ready(net);
      sync.finish();
      CHECK(all_equal(net, 1.5f));
      for (int m = 0; m < 3; ++m) {
        sync.begin({.weight = m + 1, .micro_step = m < 2 ? micro_step::more : micro_step::last});
        fill(net, static_cast<float>(m));
        sync.mark_ready(net);
        sync.finish();
      }
      CHECK(all_equal(net, 8.0f / 6));
      CHECK(sync.contribute_nothing().weight == 0);
      CHECK(all_equal(net, 0.0f));
    });
}

TEST_CASE("tensors at the cap, of no, one and 2^20 + 1 elements; more ranks than elements") {
  in_each_variant(2, [](auto& comm, synchronizer_options options) {
    options.bucket_bytes = options.first_bucket_bytes = 4096;
    layers net = test::make_layers({1024, 0, 1, (1 << 20) + 1});
    synchronizer sync{net, comm, options};
    CHECK(sync.plan().buckets.size() == 3);
    fill(net, static_cast<float>(comm.rank()));
    sync.mark_all_ready();
    sync.finish();
    CHECK(all_equal(net, 0.5f));
  });
  in_each_variant(8, [](auto& comm, const synchronizer_options& options) {
    layers net = test::make_layers({3});
    synchronizer sync{net, comm, options};
    fill(net, static_cast<float>(comm.rank()));
    sync.mark_all_ready();
    sync.finish();
    CHECK(all_equal(net, 3.5f));
  });
}

TEST_CASE("plain accumulation reads once, at the last mark") {
  in_each_variant(2, [](auto& comm, synchronizer_options options) {
    options.accumulation = accumulation_mode::plain;
    layers net = test::make_layers({64});
    synchronizer sync{net, comm, options};
    for (gradient_kind kind : {gradient_kind::mean, gradient_kind::sum}) {
      fill(net, 0);
      for (int m = 0; m < 3; ++m) {
        sync.begin({.weight = 4, .gradient = kind, .micro_step = m < 2 ? micro_step::more : micro_step::last});
        for (float& g : net.layer[0].grad) g += static_cast<float>(m + comm.rank());  // 3 and 6 in all
        sync.mark_all_ready();
        CHECK(sync.finish().weight == (m < 2 ? 0 : 24));
      }
      CHECK(all_equal(net, kind == gradient_kind::mean ? 1.5f : 9.0f / 24));
    }
    CHECK(sync.memory().partial_sums == 0);
    sync.begin({.weight = 4, .micro_step = micro_step::more});
    sync.mark_all_ready();
    sync.finish();
    CHECK_THROWS_WITH_AS(sync.begin({.weight = 2}), doctest::Contains("same weight in each micro-step"), usage_error);
    CHECK_THROWS_WITH_AS(sync.begin({.weight = 4, .gradient = gradient_kind::sum}), doctest::Contains("means or sums"), usage_error);
    fill(net, 5);
    CHECK(sync.contribute_nothing().weight == 8);  // the buffer holds a mean of weight 4: it is read
    CHECK(all_equal(net, 2.5f * 2));
  });
}

TEST_CASE("weights of any arithmetic type, also those that float can't hold") {
  in_each_variant(2, [](auto& comm, const synchronizer_options& options) {
    layers net = test::make_layers({5});
    synchronizer sync{net, comm, options};
    const std::size_t large = (std::size_t{1} << 24) + 1;
    sync.begin({.weight = large});
    fill(net, comm.rank() == 0 ? 3.0f : 4.0f);
    sync.mark_all_ready();
    CHECK(sync.finish().weight == 2.0 * static_cast<double>(large));
    const float terms[2] = {static_cast<float>(3.0 * static_cast<double>(large)), static_cast<float>(4.0 * static_cast<double>(large))};
    CHECK(all_equal(net, static_cast<float>(static_cast<double>(terms[0] + terms[1]) / (2.0 * static_cast<double>(large)))));
  });
}

TEST_CASE("gradients in a second object, in one arena, in views, and in double") {
  struct values {
    std::vector<float> a;
    std::vector<double> b;
  };
  in_each_variant(3, [](auto& comm, const synchronizer_options& options) {
    values net{std::vector<float>(33, static_cast<float>(comm.rank())), {1, 2}}, grads = net;
    synchronizer sync{net, grads, comm, options};
    CHECK(net.a[32] == 0);  // rank 0's
    grads.a.assign(33, static_cast<float>(comm.rank()));
    grads.b.assign(2, comm.rank() * 2.0);
    sync.mark_ready(net.b);
    sync.mark_ready(grads.a);
    sync.finish();
    CHECK(grads.a == std::vector<float>(33, 1.0f));
    CHECK(grads.b == std::vector<double>(2, 2.0));
  });

  struct view {
    std::span<float> value, grad;
  };
  struct arena_model {
    view a, b, c;
  };
  for (progress how : {progress::at_marks, progress::thread})
    thread_group(3).run([&](auto& comm) {
      std::vector<float> values(100), grads(100);
      auto part = [](std::vector<float>& all, std::size_t first, std::size_t n) { return std::span(all).subspan(first, n); };
      arena_model net{{part(values, 0, 10), part(grads, 0, 10)},
                      {part(values, 10, 50), part(grads, 10, 50)},
                      {part(values, 60, 40), part(grads, 60, 40)}};
      synchronizer sync{net, comm, {.layout = layout::adopted, .progress = how}};
      CHECK(net.a.grad.data() != grads.data());  // the views look into our slots now
      CHECK(reinterpret_cast<std::uintptr_t>(net.b.grad.data()) % 64 == 0);
      for (float& g : net.a.grad) g = static_cast<float>(comm.rank());
      for (float& g : net.b.grad) g = static_cast<float>(comm.rank() * 3);
      for (float& g : net.c.grad) g = 1;
      sync.mark_all_ready();
      sync.finish();
      CHECK(net.a.grad[9] == 1);
      CHECK(net.b.grad[0] == 3);
      CHECK(net.c.grad[39] == 1);
      net.b.grad = part(grads, 10, 50);
      CHECK_THROWS_WITH_AS(sync.mark_ready(net.b), doctest::Contains("was adopted"), usage_error);
    });
}

TEST_CASE("each strategy, number of ranks and accumulation gives the mean; canonical ones the bits of a scalar tree") {
  const std::size_t n = 1237;
  for (int ranks = 1; ranks <= 9; ++ranks)
    for (int which = 0; which < 4; ++which)
      for (int micro_steps : {1, 3}) {
        auto weight_of = [&](int leaf) { return leaf % 5 == 3 ? 0.0 : 1.0 + 0.37 * leaf; };  // unequal, one of them 0, none of them exact
        std::vector<std::vector<float>> leaves;
        for (int l = 0; l < ranks * micro_steps; ++l) leaves.push_back(test::random_floats(static_cast<std::uint64_t>(l), n));
        thread_group(ranks).run([&](auto& comm) {
          auto chosen = which == 0   ? collective{comm, native{}}
                        : which == 1 ? collective{comm, tree{}}
                        : which == 2 ? collective{comm, halving_doubling{}}
                                     : collective{comm, ring{}};
          layers net = test::make_layers({n - 200, 200});
          synchronizer sync{net, chosen, {.bucket_bytes = 2000, .first_bucket_bytes = 2000}};
          for (int m = 0; m < micro_steps; ++m) {
            const int leaf = comm.rank() * micro_steps + m;
            sync.begin({.weight = weight_of(leaf), .micro_step = m + 1 < micro_steps ? micro_step::more : micro_step::last});
            const auto& x = leaves[static_cast<std::size_t>(leaf)];
            net.layer[0].grad.assign(x.begin(), x.end() - 200);
            net.layer[1].grad.assign(x.end() - 200, x.end());
            sync.mark_ready(net.layer[1]);
            sync.mark_ready(net.layer[0]);
            sync.finish();
          }
          // A rank's micro-steps are folded first; then the tree over ranks.
          int wrong = 0;
          for (std::size_t i = 0; i < n; ++i) {
            auto term = [&](int leaf) {
              return weight_of(leaf) == 0 ? -0.0f : weighted(leaves[static_cast<std::size_t>(leaf)][i], weight_of(leaf));
            };
            auto on_rank = [&](int r) { return test::tree_sum<float>([&](int m) { return term(r * micro_steps + m); }, 0, micro_steps); };
            auto weight_on_rank = [&](int r) {
              return test::tree_sum<double>([&](int m) { return weight_of(r * micro_steps + m); }, 0, micro_steps);
            };
            const double total = test::tree_sum<double>(weight_on_rank, 0, ranks);
            float want = static_cast<float>(static_cast<double>(test::tree_sum<float>(on_rank, 0, ranks)) / total);
            if (ranks == 1 && micro_steps == 1) want = leaves[0][i];
            const float got = i < n - 200 ? net.layer[0].grad[i] : net.layer[1].grad[i - (n - 200)];
            if (which == 3 ? std::abs(got - want) > 1e-4f * std::abs(want) + 1e-3f : got != want) ++wrong;
          }
          CHECK_MESSAGE(wrong == 0, "ranks ", ranks, " strategy ", which, " micro-steps ", micro_steps);
        });
      }
}

TEST_CASE("N ranks equal one rank, bit for bit, for every bucket size and layout") {
  const std::vector<std::size_t> counts = {500, 3, 1000, 64};
  auto result = [&](int ranks, std::size_t bucket_bytes, const variant& v) {
    std::vector<float> out;
    thread_group(ranks).run([&](auto& comm) {
      layers net = test::make_layers(counts);
      synchronizer sync{
          net, comm, {.bucket_bytes = bucket_bytes, .first_bucket_bytes = bucket_bytes / 2, .layout = v.layout, .progress = v.progress}};
      const int share = 8 / ranks;
      for (int m = 0; m < share; ++m) {
        const int leaf = comm.rank() * share + m;
        sync.begin({.weight = leaf == 5 ? 0 : 3 + leaf, .micro_step = m + 1 < share ? micro_step::more : micro_step::last});
        for (std::size_t l = 0; l < counts.size(); ++l)
          net.layer[l].grad = test::random_floats(static_cast<std::uint64_t>(leaf) * 100 + l, counts[l]);
        sync.mark_all_ready();
        sync.finish();
      }
      if (comm.rank() == ranks - 1)
        for (const param& p : net.layer) out.insert(out.end(), p.grad.begin(), p.grad.end());
    });
    return out;
  };
  const std::vector<float> one = result(1, 25 << 20, variants[0]);
  for (int ranks : {1, 2, 4, 8})
    for (std::size_t bytes : {std::size_t{0}, std::size_t{300}, std::size_t{25 << 20}})
      for (const variant& v : variants) CHECK(result(ranks, bytes, v) == one);
}
