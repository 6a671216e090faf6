// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

// A synchronizer whose buckets are summed by several strategies, each as its bytes ask for.
#include "gradsync/gradsync.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "tests/sync/models.hpp"

using namespace gradsync;
using test::layers;

namespace {

// Fused passes and rounds in turns, all canonical.
struct mixed {
  std::size_t first = 100;

  const char* name() const { return "mixed"; }
  template <transport Communicator>
  repertoire choose(Communicator& comm) const {
    return {.programs = {prove(comm, tree{.segments = 2}), prove(comm, native{}), prove(comm, halving_doubling{})},
            .choices = {{.up_to = first, .which = 0}, {.up_to = 2000, .which = 1}, {.up_to = 10'000, .which = 2}, {.which = 1}}};
  }
};

const std::vector<std::size_t> counts = {5000, 20, 1000, 300, 7};

// All gradients that a rank ends with, after updates with weights of its own.
std::vector<std::vector<float>> gradients(const collective<thread_communicator>& sum, const synchronizer_options& options) {
  const int rank = sum.communicator().rank();
  layers net = test::make_layers(counts);
  synchronizer sync{net, sum, options};
  std::vector<std::vector<float>> all;
  for (std::uint64_t step = 0; step < 6; ++step) {
    const bool two = step % 3 == 2;  // micro-steps
    for (std::uint64_t micro = two ? 0 : 1; micro < 2; ++micro) {
      const double weight = rank == 1 && step == 4 ? 0 : 3 + rank * 1.7;
      sync.begin({.weight = weight, .micro_step = micro == 0 ? micro_step::more : micro_step::last});
      for (std::size_t i = counts.size(); i-- > 0;) {
        net.layer[i].grad = test::random_floats(1000 * step + 100 * micro + 10 * i + static_cast<std::uint64_t>(rank), counts[i]);
        sync.mark_ready(net.layer[i]);
      }
      sync.finish();
    }
    for (const auto& layer : net.layer) all.push_back(layer.grad);
  }
  return all;
}

}  // namespace

TEST_CASE("buckets of several canonical strategies have the bits of one, in every layout and progress, on 2 to 5 ranks") {
  for (int ranks = 2; ranks <= 5; ++ranks)
    for (const layout how : {layout::in_place, layout::packed})
      for (const progress by : {progress::at_marks, progress::thread})
        thread_group(ranks).run([&](auto& comm) {
          const synchronizer_options options{.bucket_bytes = 0, .layout = how, .progress = by};
          const auto expected = gradients(collective{comm}, options);
          CHECK(gradients(collective{comm, mixed{}}, options) == expected);
          CHECK(gradients(collective{comm, tree{}}, options) == expected);
        });
}

TEST_CASE("automatic has the bits of native and of tree, with any bucket size, on 2 to 5 ranks") {
  for (int ranks = 2; ranks <= 5; ++ranks)
    thread_group(ranks).run([](auto& comm) {
      const collective sum{comm, automatic{}};
      for (const std::size_t bytes : {0u, 2000u, 1u << 20}) {
        const synchronizer_options options{.bucket_bytes = bytes};
        const auto expected = gradients(collective{comm}, options);
        CHECK(gradients(sum, options) == expected);
        CHECK(gradients(collective{comm, tree{}}, options) == expected);
      }
    });
}

TEST_CASE("the plan and the trace say which strategy a bucket has") {
  thread_group(2).run([](auto& comm) {
    layers net = test::make_layers(counts);
    recorder times{comm.rank()};
    synchronizer sync{net, collective{comm, mixed{}}, {.bucket_bytes = 0, .layout = layout::in_place, .recorder = &times}};
    CHECK(sync.describe_plan() ==
          "bucket        bytes  type     layout     strategy          parameters\n"
          "     0           28  float32  in place   tree              layer[4]\n"
          "     1         1200  float32  in place   native            layer[3]\n"
          "     2         4000  float32  in place   halving_doubling  layer[2]\n"
          "     3           80  float32  in place   tree              layer[1]\n"
          "     4        20000  float32  in place   native            layer[0]\n");
    for (int step = 0; step < 3; ++step) {
      for (auto& layer : net.layer) layer.grad.assign(layer.value.size(), 1);
      sync.mark_all_ready();
      sync.finish();
    }
    const char* expected[] = {"tree", "native", "halving_doubling", "tree", "native"};
    for (const step_times& step : times.steps())
      for (std::size_t b = 0; b < 5; ++b) CHECK(step.buckets[b].strategy == expected[b]);
    CHECK(chrome_trace(std::vector<recorder>{times}).find(R"("strategy":"halving_doubling")") != std::string::npos);
  });
}

TEST_CASE("with one strategy the plan has no column for it, but the trace names it") {
  thread_group(2).run([](auto& comm) {
    layers net = test::make_layers({10});
    recorder times{comm.rank()};
    synchronizer sync{net, collective{comm, ring{}}, {.recorder = &times}};
    CHECK(sync.describe_plan().find("strategy") == std::string::npos);
    net.layer[0].grad.assign(10, 1);
    sync.mark_all_ready();
    sync.finish();
    CHECK(times.steps()[0].buckets[0].strategy == "ring");
  });
}

TEST_CASE("ranks whose rules choose otherwise do not start") {
  int seen = 0;
  try {
    thread_group(3).run([](auto& comm) {
      layers net = test::make_layers({10});
      synchronizer sync{net, collective{comm, mixed{.first = comm.rank() == 2 ? std::size_t{99} : std::size_t{100}}}};
    });
  } catch (const mismatch_error& e) {
    ++seen;
    const std::string rest =
        ", then native in 2 rounds of 3 chunks up to 2000 bytes, then halving_doubling in 4 rounds of 2 chunks up to 10000 bytes, then "
        "native "
        "in 2 rounds of 3 chunks";
    CHECK(e.what() == "gradsync[rank 2]: strategy is tree in 5 rounds of 2 chunks up to 99 bytes" + rest +
                          ", rank 0 has tree in 5 rounds of 2 chunks up to 100 bytes" + rest + "; give every rank the same options");
  }
  CHECK(seen == 1);
}

TEST_CASE("the memory report counts the scratch of strategies that need some") {
  thread_group(2).run([](auto& comm) {
    layers net = test::make_layers({1000});
    const auto scratch_after_an_update = [&](const collective<thread_communicator>& sum) {
      synchronizer sync{net, sum};
      CHECK(sync.memory().scratch == 0);
      sync.contribute_nothing();
      return sync.memory().scratch;
    };
    CHECK(scratch_after_an_update(collective{comm, recursive_doubling{}}) == 4000);
    CHECK(scratch_after_an_update(collective{comm, ring{}}) == 0);
    CHECK(scratch_after_an_update(collective{comm}) == 0);
  });
}
