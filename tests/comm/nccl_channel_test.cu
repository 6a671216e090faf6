// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0
#include "gradsync/comm/nccl_channel.hpp"

#include <doctest/doctest.h>

#include <optional>

#include "gradsync/comm/threads.hpp"
#include "tests/comm/nccl_ranks.hpp"
#include "tests/comm/said_on_stderr.hpp"
#include "tests/laws/transport_laws.hpp"

using namespace gradsync;
using namespace std::chrono_literals;
using tests::device_vector;
using tests::on_gpus;

namespace {

using case_of = laws::mean_case<float>;

// One collective on each rank, over whatever memory `buffer` is; what is left in it.
template <class Comm, class Channel, class Buffer>
std::vector<float> mean_over(Comm& comm, Channel& channel, const program& p, const case_of& c, const Buffer& buffer) {
  cursor at{.place = channel.post(p, {.buffer = buffer.view(), .scale = 1, .weight = c.weight(comm.rank())})};
  CHECK(run(p, channel, at, comm.limit()));
  CHECK(channel.drain(p, at.place, comm.limit()));
  const std::vector<float> result = buffer.values();
  comm.barrier();  // a strategy need not meet every rank
  CHECK(channel.total_weight(at.place) == c.total(comm.size()));
  return result;
}

std::vector<case_of> cases() {
  std::vector<case_of> all;
  for (const std::size_t count : {0u, 1u, 3u, 257u, 3001u})
    all.push_back({.count = count, .seed = all.size() + 1, .kind = laws::numbers_kind::reals, .weighted = count != 257});
  return all;
}

// What every strategy of rounds makes of all cases over threads: by strategy, then by case.
std::vector<std::vector<float>> over_threads(int size) {
  std::vector<std::vector<float>> results;
  thread_group(size).run([&](auto& comm) {
    laws::each_program(comm.rank(), size, [&](program p, bool) {
      p.fused = false;
      auto channel = comm.open(1);
      for (const case_of& c : cases()) {
        const laws::scattered<float> buffer(c.input(comm.rank()));
        const auto result = mean_over(comm, channel, p, c, buffer);
        if (comm.rank() == 0) results.push_back(result);
      }
    });
  });
  return results;
}

program native_of(const nccl_communicator& comm) { return compile(native{}, comm.rank(), comm.size()); }

}  // namespace

TEST_CASE("every strategy over sends and receives gives the bits of threads, on every rank") {
  unsigned seed = 0;
  for (const int size : {1, 2, 3, 4, 5}) {
    const auto expected = over_threads(size);
    for (int repeat = 0; repeat < 4; ++repeat)
      on_gpus(
          size,
          [&](auto& comm) {
            std::size_t k = 0;
            laws::each_program(comm.rank(), size, [&](program p, bool) {
              p.fused = false;
              auto channel = comm.open(1);
              for (const case_of& c : cases()) {
                const device_vector<float> buffer(c.input(comm.rank()));
                const bool same = laws::same_bits(mean_over(comm, channel, p, c, buffer), expected[k++]);
                CHECK_MESSAGE(same, p.name, " on ", size, " ranks, ", c.count, " elements, seed ", seed);
              }
            });
          },
          {}, ++seed);
  }
}

TEST_CASE("native sums by ncclAllReduce, and the stream divides by the sum of weights that is on the device") {
  for (unsigned seed = 1; seed <= 20; ++seed)
    on_gpus(
        3,
        [&](auto& comm) {
          auto channel = comm.open(2);
          const program p = native_of(comm);
          case_of c{.count = 1000, .seed = seed, .kind = laws::numbers_kind::integers, .weighted = false};
          const device_vector<float> a(c.input(comm.rank())), b(c.input(comm.rank()));
          const ticket first = channel.post(p, {.buffer = a.view(), .weight = 2.0 * comm.rank(), .part = 0});
          const ticket second = channel.post(p, {.buffer = b.view(), .weight = 2.0 * comm.rank(), .part = 1});
          CHECK(channel.total(first) == channel.total(second));  // the same place
          channel.stream().divide(a.view(), a.view(), channel.total(first));
          channel.stream().divide(b.view(), b.view(), channel.total(second));
          channel.stream().flush();
          std::vector<float> expected(c.count);
          for (int r = 0; r < 3; ++r) {
            const std::vector<float> theirs = c.input(r);
            for (std::size_t i = 0; i < c.count; ++i) expected[i] += theirs[i];
          }
          for (float& x : expected) x /= 6;
          CHECK(laws::same_bits(a.values(), expected));
          CHECK(laws::same_bits(b.values(), expected));
          CHECK(channel.total_weight(second) == 6);
        },
        {}, seed);
}

TEST_CASE("buckets in pieces are refused") {
  on_gpus(2, [](auto& comm) {
    auto channel = comm.open(1);
    const device_vector<float> memory(std::vector<float>(10));
    const extent pieces[] = {{reinterpret_cast<std::byte*>(memory.data()), 0, 4}, {reinterpret_cast<std::byte*>(memory.data() + 5), 4, 5}};
    CHECK_THROWS_WITH_AS(channel.post(native_of(comm), {.buffer = {dtype::float32, pieces}}),
                         doctest::Contains("NCCL sums contiguous buckets, not 2 pieces; use layout::packed"), usage_error);
  });
}

TEST_CASE("a whole step can be captured, and each launch of the graph does it anew") {
  for (unsigned seed = 1; seed <= 10; ++seed)
    for (const bool rounds : {false, true})
      on_gpus(
          2,
          [&](auto& comm) {
            auto channel = comm.open(1);
            program p = rounds ? compile(ring{}, comm.rank(), 2) : native_of(comm);
            const device_vector<float> gradient(std::vector<float>(500, 3));
            const auto step = [&](cudaStream_t user) {
              channel.stream().wait_for(user);
              cursor at{.place = channel.post(p, {.buffer = gradient.view(), .weight = 1})};
              run(p, channel, at, comm.limit());
              if (!rounds) channel.stream().divide(gradient.view(), gradient.view(), channel.total(at.place));
              channel.stream().release_to(user);
              return at.place;
            };
            cuda_stream user(comm.device());
            step(user.native());
            check(cudaStreamBeginCapture(user.native(), cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
            channel.stream().wait_for(user.native());
            // What would wait for the device says so, and the capture goes on.
            CHECK_THROWS_WITH_AS(comm.all_reduce(1), doctest::Contains("all_reduce(sum) waits for the device"), usage_error);
            CHECK_THROWS_WITH_AS(comm.barrier(), doctest::Contains("barrier waits for the device"), usage_error);
            CHECK_THROWS_WITH_AS(comm.allocate(256), doctest::Contains("allocate() waits for the device"), usage_error);
            const ticket t = step(user.native());
            CHECK_THROWS_WITH_AS(channel.total_weight(t), doctest::Contains("total_weight() waits for the device"), usage_error);
            cudaGraph_t graph = nullptr;
            cudaGraphExec_t executable = nullptr;
            check(cudaStreamEndCapture(user.native(), &graph), "cudaStreamEndCapture");
            check(cudaGraphInstantiate(&executable, graph, 0), "cudaGraphInstantiate");
            CHECK(comm.graphs_alive() == 1);
            for (int launch = 1; launch <= 3; ++launch) {
              const float mine = static_cast<float>(10 * launch + comm.rank());
              check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
              device_vector<float> fresh(std::vector<float>(500, mine));
              check(cudaMemcpyAsync(gradient.data(), fresh.data(), 500 * sizeof(float), cudaMemcpyDeviceToDevice, user.native()),
                    "cudaMemcpyAsync");
              check(cudaGraphLaunch(executable, user.native()), "cudaGraphLaunch");
              comm.watch(user.native(), "graph");
              CHECK(gradient.values() == std::vector<float>(500, static_cast<float>(10 * launch) + 0.5f));
            }
            check(cudaGraphExecDestroy(executable), "cudaGraphExecDestroy");
            check(cudaGraphDestroy(graph), "cudaGraphDestroy");
            CHECK(tests::graphs_left(comm, 0));
          },
          {}, seed);
}

TEST_CASE("what a strategy has no staging memory for yet cannot be captured") {
  on_gpus(2, [](auto& comm) {
    auto channel = comm.open(1);
    const program p = compile(ring{}, comm.rank(), 2);
    const device_vector<float> gradient(std::vector<float>(500, 3)), smaller(std::vector<float>(50, 3));
    cuda_stream user(comm.device());
    const auto begin = [&] {
      check(cudaStreamBeginCapture(user.native(), cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
      channel.stream().wait_for(user.native());
    };
    const auto end = [&] {
      channel.stream().release_to(user.native());
      cudaGraph_t graph = nullptr;
      check(cudaStreamEndCapture(user.native(), &graph), "cudaStreamEndCapture");
      check(cudaGraphDestroy(graph), "cudaGraphDestroy");
    };
    begin();
    CHECK_THROWS_WITH_AS(channel.post(p, {.buffer = gradient.view(), .weight = 1}),
                         doctest::Contains("the first step, and the first one of a new plan, makes memory and waits"), usage_error);
    end();
    mean_over(comm, channel, p, {.count = 50, .weighted = false}, smaller);
    begin();
    CHECK_THROWS_WITH_AS(channel.post(p, {.buffer = gradient.view(), .weight = 1}),
                         doctest::Contains("ring has no staging memory of 1024 bytes yet"), usage_error);
    CHECK_THROWS_WITH_AS(channel.enter_capture(user.native(), 3),
                         doctest::Contains("the weight 3.000000 would be frozen in the CUDA graph"), usage_error);
    end();
  });
}

TEST_CASE("when leave() returns, or a channel has gone, the device has left the buffers, also where another one's graph keeps all memory") {
  for (unsigned seed = 1; seed <= 10; ++seed)
    CHECK(tests::said_on_stderr([&] {
            on_gpus(
                2,
                [](auto& comm) {
                  const program p = native_of(comm);
                  const device_vector<float> gradient(std::vector<float>(500, 1));
                  const auto post = [&](nccl_channel& on) { on.post(p, {.buffer = gradient.view(), .weight = 1}); };
                  cuda_stream user(comm.device());
                  auto captures = comm.open(1);
                  post(captures);
                  captures.leave();
                  CHECK(gradient.seen().back() == 2);
                  const cudaGraphExec_t graph = tests::captured(user.native(), [&](cudaStream_t s) {
                    captures.stream().wait_for(s);
                    post(captures);
                    captures.stream().release_to(s);
                  });
                  std::optional<nccl_channel> channel(comm.open(1));
                  post(*channel);
                  channel.reset();
                  CHECK(gradient.seen().back() == 4);
                  check(cudaGraphExecDestroy(graph), "cudaGraphExecDestroy");
                },
                {}, seed);
          }) == "");
}
