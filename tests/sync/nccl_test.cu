// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

// The synchronizer on GPUs: the numbers of threads, to the bit where the strategy says so.
#include "gradsync/comm/nccl.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "gradsync/gradsync.hpp"
#include "tests/comm/nccl_ranks.hpp"
#include "tests/comm/said_on_stderr.hpp"
#include "tests/cuda/device_tensor.hpp"
#include "tests/laws/scattered.hpp"
#include "tests/sync/models.hpp"

using namespace gradsync;
using tests::captured;
using tests::device_tensor;
using tests::graphs_left;
using tests::on_gpus;
using tests::said_on_stderr;

namespace {

struct device_param {
  device_tensor value, grad;
};
struct device_model {
  std::vector<device_param> layer;
};

const std::vector<std::size_t> counts = {3, 5000, 1, 700};
using gradients = std::vector<std::vector<float>>;  // by layer

// What a rank's backward pass makes of a micro-step: by rank, update and micro-step.
struct training {
  bool integers = false;
  int micro_steps = 1;

  float weight(int rank, int micro_step) const { return static_cast<float>((rank + micro_step) % 3 + (integers ? 1 : 0)); }
  gradients of(int rank, int update, int micro_step) const {
    gradients all;
    for (std::size_t i = 0; i < counts.size(); ++i) {
      all.push_back(test::random_floats(static_cast<std::uint64_t>(rank * 100 + update * 10 + micro_step) * 17 + i, counts[i]));
      for (float& x : all.back())
        if (integers) x = static_cast<float>(static_cast<int>(x) % 50);
    }
    return all;
  }
};

constexpr int updates = 3;

template <class Comm, class Rule>
void train_on_threads(Comm& comm, const Rule& rule, const training& t, std::vector<gradients>& results) {
  test::layers net = test::make_layers(counts);
  collective sum{comm, rule};
  synchronizer sync{net, sum, synchronizer_options{.bucket_bytes = 8000, .layout = layout::packed}};
  for (int update = 0; update < updates; ++update) {
    for (int m = 0; m < t.micro_steps; ++m) {
      const gradients mine = t.of(comm.rank(), update, m);
      sync.begin({.weight = t.weight(comm.rank(), m), .micro_step = m + 1 < t.micro_steps ? micro_step::more : micro_step::last});
      for (std::size_t i = counts.size(); i-- > 0;) {
        net.layer[i].grad = mine[i];
        sync.mark_ready(net.layer[i]);
      }
      sync.finish();
    }
    if (comm.rank() != 0) continue;
    results.emplace_back();
    for (const auto& layer : net.layer) results.back().push_back(layer.grad);
  }
}

// The user's streams: each gradient is made on one of two, and read back on the one that finish() was given. Nothing else waits.
template <class Rule>
void train_on_gpus(nccl_communicator& comm, const Rule& rule, const training& t, const std::vector<gradients>& expected,
                   synchronizer_options options = {.bucket_bytes = 8000}) {
  device_model net;
  for (const std::size_t n : counts) {
    net.layer.push_back({device_tensor(n), device_tensor(n)});
    const std::vector<float> values(n, static_cast<float>(comm.rank() + 1));
    check(cudaMemcpy(net.layer.back().value.data(), values.data(), n * sizeof(float), cudaMemcpyHostToDevice), "cudaMemcpy");
  }
  collective sum{comm, rule};
  synchronizer sync{net, sum, options};
  for (std::size_t i = 0; i < counts.size(); ++i) {
    std::vector<float> values(counts[i]);
    check(cudaMemcpy(values.data(), net.layer[i].value.data(), values.size() * sizeof(float), cudaMemcpyDeviceToHost), "cudaMemcpy");
    CHECK(values == std::vector<float>(counts[i], 1));  // rank 0's
  }
  cuda_stream first(comm.device()), second(comm.device());
  const std::size_t bytes = 8000 * sizeof(float);
  const auto made = pinned_memory(bytes * static_cast<std::size_t>(updates * t.micro_steps)), read = pinned_memory(bytes);
  std::byte* from = made.get();
  for (int update = 0; update < updates; ++update) {
    for (int m = 0; m < t.micro_steps; ++m) {
      const gradients mine = t.of(comm.rank(), update, m);
      sync.begin({.weight = t.weight(comm.rank(), m), .micro_step = m + 1 < t.micro_steps ? micro_step::more : micro_step::last});
      for (std::size_t i = counts.size(); i-- > 0;) {
        cuda_stream& stream = i % 2 == 0 ? first : second;
        if (m > 0 || update > 0) stream.wait_for(first.native());  // after what has read or taken the gradient before
        const std::size_t n = counts[i] * sizeof(float);
        std::memcpy(from, mine[i].data(), n);
        check(cudaMemcpyAsync(net.layer[i].grad.data(), from, n, cudaMemcpyHostToDevice, stream.native()), "cudaMemcpyAsync");
        from += n;
        sync.mark_ready(net.layer[i], stream.native());
      }
      sync.finish(first.native());
    }
    for (std::size_t i = 0; i < counts.size(); ++i) {
      std::vector<float> got(counts[i]);
      const std::size_t n = counts[i] * sizeof(float);
      check(cudaMemcpyAsync(read.get(), net.layer[i].grad.data(), n, cudaMemcpyDeviceToHost, first.native()), "cudaMemcpyAsync");
      check(cudaStreamSynchronize(first.native()), "cudaStreamSynchronize");
      std::memcpy(got.data(), read.get(), n);
      const bool same = laws::same_bits(got, expected[static_cast<std::size_t>(update)][i]);
      CHECK_MESSAGE(same, "rank ", comm.rank(), ", update ", update, ", layer ", i);
    }
  }
}

template <class Rule>
void same_on_gpus(int ranks, const Rule& rule, const training& t, int seeds, unsigned first_seed) {
  std::vector<gradients> expected;
  thread_group(ranks).run([&](auto& comm) { train_on_threads(comm, rule, t, expected); });
  for (int s = 0; s < seeds; ++s)
    on_gpus(
        ranks, [&](auto& comm) { train_on_gpus(comm, rule, t, expected); }, {}, first_seed + static_cast<unsigned>(s));
}

}  // namespace

TEST_CASE("strategies over sends and receives give the gradients of threads, to the bit") {
  same_on_gpus(2, halving_doubling{}, {}, 6, 1);
  same_on_gpus(3, ring{}, {}, 3, 100);
  same_on_gpus(4, direct{}, {}, 3, 200);
  same_on_gpus(3, tree{.segments = 2}, {}, 3, 300);
}

TEST_CASE("several micro-steps, ranks without data among them, give the gradients of threads") {
  same_on_gpus(2, halving_doubling{}, {.micro_steps = 3}, 6, 400);
  same_on_gpus(3, recursive_doubling{}, {.micro_steps = 4}, 3, 500);
}

TEST_CASE("with NCCL's own all-reduce, N ranks are one rank on the joined batch where sums are exact") {
  same_on_gpus(2, native{}, {.integers = true}, 10, 600);
  same_on_gpus(3, native{}, {.integers = true, .micro_steps = 2}, 5, 700);
  same_on_gpus(4, native{}, {.integers = true}, 4, 800);
}

TEST_CASE("Σw is known where somebody asks for it") {
  on_gpus(3, [](auto& comm) {
    device_model net{.layer = {}};
    net.layer.push_back({device_tensor(10), device_tensor(10)});
    synchronizer sync{net, comm};
    sync.begin({.weight = comm.rank() + 1});
    sync.mark_all_ready();
    CHECK(std::isnan(sync.finish().weight));
    CHECK(sync.total_weight() == 6);
    sync.contribute_nothing();
    CHECK(sync.total_weight() == 0);
  });
}

namespace {

void set(const device_tensor& t, float value, cudaStream_t stream) {
  const std::vector<float> all(t.count, value);
  check(cudaMemcpyAsync(t.data(), all.data(), t.count * sizeof(float), cudaMemcpyHostToDevice, stream), "cudaMemcpyAsync");
  check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
}

bool all_are(const device_tensor& t, float value) {
  std::vector<float> got(t.count);
  check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  check(cudaMemcpy(got.data(), t.data(), got.size() * sizeof(float), cudaMemcpyDeviceToHost), "cudaMemcpy");
  return got == std::vector<float>(t.count, value);
}

// A model of ones, and what is done to it: integers, whose sums are exact.
struct captured_training {
  explicit captured_training(nccl_communicator& on) : comm(on), user(on.device()) {
    for (const std::size_t n : counts) net.layer.push_back({device_tensor(n), device_tensor(n)});
  }
  void backward(float value) {
    for (auto& layer : net.layer) set(layer.grad, value + static_cast<float>(2 * comm.rank()), user.native());
  }
  template <class Sync>
  void mark_and_finish(Sync& sync) {
    for (std::size_t i = counts.size(); i-- > 0;) sync.mark_ready(net.layer[i], user.native());
    sync.finish(user.native());
  }
  template <class F>
  void capture_nothing(F&& f) {
    check(cudaGraphExecDestroy(captured(user.native(), f)), "cudaGraphExecDestroy");
  }
  void launch(cudaGraphExec_t step, float value, float mean) {
    backward(value);
    check(cudaGraphLaunch(step, user.native()), "cudaGraphLaunch");
    comm.watch(user.native(), "graph");
    for (const auto& layer : net.layer) CHECK(all_are(layer.grad, mean));
  }

  nccl_communicator& comm;
  device_model net;
  cuda_stream user;
};

}  // namespace

TEST_CASE("a whole step of the synchronizer is captured in a CUDA graph, and each launch does it anew") {
  unsigned seed = 900;
  const auto replays = [&](const auto& rule, micro_step first) {
    on_gpus(
        2,
        [&](nccl_communicator& comm) {
          captured_training t(comm);
          synchronizer sync{t.net, collective{comm, rule}, {.bucket_bytes = 8000}};
          for (int update = 0; update < 2; ++update) {
            t.backward(1);
            t.mark_and_finish(sync);
          }
          const cudaGraphExec_t step = captured(t.user.native(), [&](cudaStream_t) {
            if (first == micro_step::more) {
              sync.begin({.micro_step = micro_step::more});  // makes memory for partial sums, which the capture does not mind
              t.mark_and_finish(sync);
            }
            t.mark_and_finish(sync);
          });
          CHECK(comm.graphs_alive() == 1);
          for (const float value : {10.0f, 20.0f, 30.0f}) t.launch(step, value, value + 1);
          CHECK(sync.total_weight() == (first == micro_step::more ? 4 : 2));
          check(cudaGraphExecDestroy(step), "cudaGraphExecDestroy");
        },
        {}, ++seed);
  };
  for (int repeat = 0; repeat < 3; ++repeat) {
    replays(native{}, micro_step::last);
    replays(ring{}, micro_step::last);
    replays(halving_doubling{}, micro_step::more);
  }
}

TEST_CASE("a graph that outlives its synchronizer is told of, and what it needs stays until it is destroyed") {
  constexpr const char* complaint = "a CUDA graph is alive that has captured steps of a synchronizer which is being destroyed; launch it";
  const auto outlived = [&](int ranks, const auto& rule, unsigned seed) {
    on_gpus(
        ranks,
        [&](nccl_communicator& comm) {
          captured_training t(comm);
          cudaGraphExec_t step = nullptr;
          {
            synchronizer sync{t.net, collective{comm, rule}, {.bucket_bytes = 8000}};
            t.backward(1);
            t.mark_and_finish(sync);
            step = captured(t.user.native(), [&](cudaStream_t) { t.mark_and_finish(sync); });
            CHECK(comm.graphs_alive() == 1);
          }
          CHECK(comm.graphs_alive() == 1);
          t.launch(step, 10, comm.size() == 1 ? 10 : 11);  // reads and writes what nobody has got since
          CHECK_THROWS_WITH_AS(comm.close(), doctest::Contains("a CUDA graph that has captured this communicator's collectives is alive"),
                               usage_error);
          check(cudaGraphExecDestroy(step), "cudaGraphExecDestroy");
          CHECK(graphs_left(comm, 0));
        },
        {}, seed);
  };
  const auto lines = [&](int ranks, const auto& rule, unsigned seed) {
    const std::string said = said_on_stderr([&] { outlived(ranks, rule, seed); });
    int found = 0;
    for (std::size_t at = 0; (at = said.find(complaint, at)) != said.npos; ++at) ++found;
    CHECK(std::count(said.begin(), said.end(), '\n') == found);
    return found;
  };
  for (unsigned seed = 1200; seed < 1204; ++seed) {
    CHECK(lines(2, native{}, seed) == 2);
    CHECK(lines(2, ring{}, seed) == 2);
    CHECK(lines(1, native{}, seed) == 1);
  }
}

TEST_CASE("graphs that are destroyed before their synchronizer are nothing to talk about, however many, and whatever they have captured") {
  for (unsigned seed = 1300; seed < 1310; ++seed)
    CHECK(said_on_stderr([&] {
            on_gpus(
                2,
                [&](nccl_communicator& comm) {
                  captured_training t(comm);
                  synchronizer sync{t.net, collective{comm, ring{}}, {.bucket_bytes = 8000}};
                  t.backward(1);
                  t.mark_and_finish(sync);
                  std::vector<cudaGraphExec_t> steps;
                  for (int i = 0; i < 3; ++i) {
                    steps.push_back(captured(t.user.native(), [&](cudaStream_t) { t.mark_and_finish(sync); }));
                    CHECK(comm.graphs_alive() == i + 1);
                  }
                  // A graph of a micro-step without any collective uses memory too.
                  steps.push_back(captured(t.user.native(), [&](cudaStream_t) {
                    sync.begin({.micro_step = micro_step::more});
                    t.mark_and_finish(sync);
                  }));
                  CHECK(comm.graphs_alive() == 4);
                  t.mark_and_finish(sync);
                  for (std::size_t i = 0; i < steps.size(); ++i) {
                    if (i == 0) t.launch(steps[i], 5, 6);
                    check(cudaGraphExecDestroy(steps[i]), "cudaGraphExecDestroy");
                    CHECK(graphs_left(comm, static_cast<int>(3 - i)));
                  }
                },
                {}, seed);
          }) == "");
}

TEST_CASE("what a captured step can't hold is refused by name, and the group lives on") {
  on_gpus(2, [](nccl_communicator& comm) {
    captured_training t(comm);
    synchronizer sync{t.net, comm, {.bucket_bytes = 8000}};
    t.backward(1);
    t.capture_nothing([&](cudaStream_t s) {
      CHECK_THROWS_WITH_AS(
          sync.mark_ready(t.net.layer[1], s),
          doctest::Contains("the first step, and the first one of a new plan, makes memory and waits; capture one after it"), usage_error);
    });
    for (int update = 0; update < 2; ++update) t.mark_and_finish(sync);
    sync.begin({.weight = 3});
    t.capture_nothing([&](cudaStream_t s) {
      CHECK_THROWS_WITH_AS(sync.mark_ready(t.net.layer[1], s),
                           doctest::Contains("the weight 3.000000 would be frozen in the CUDA graph that is being captured"), usage_error);
    });
    t.backward(4);
    t.mark_and_finish(sync);
    CHECK(sync.total_weight() == 6);
    for (const auto& layer : t.net.layer) CHECK(all_are(layer.grad, 5));
    t.capture_nothing([&](cudaStream_t) {
      t.mark_and_finish(sync);
      CHECK_THROWS_WITH_AS(sync.total_weight(), doctest::Contains("total_weight() waits for the device"), usage_error);
      CHECK_THROWS_WITH_AS(sync.broadcast_state(), doctest::Contains("broadcast_state() waits for the device"), usage_error);
    });
    check(cudaStreamBeginCapture(t.user.native(), cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
    CHECK_THROWS_WITH_AS(sync.broadcast_state(), doctest::Contains("broadcast_state() waits for the device"), usage_error);
    cudaGraph_t graph = nullptr;
    CHECK(cudaStreamEndCapture(t.user.native(), &graph) == cudaErrorStreamCaptureInvalidated);
    cudaGetLastError();
    CHECK_FALSE(comm.failed());
    sync.broadcast_state();
    t.mark_and_finish(sync);
  });
}

TEST_CASE("a thread that drives the device's collectives is refused before memory is made for them") {
  on_gpus(2, [](nccl_communicator& comm) {
    captured_training t(comm);
    CHECK_THROWS_WITH_AS((synchronizer{t.net, comm, {.progress = progress::thread}}),
                         doctest::Contains("progress::thread is not to be had here: the device drives its collectives itself"),
                         usage_error);
    CHECK(comm.describe().find("bytes from") == comm.describe().npos);
    comm.barrier();
  });
}
