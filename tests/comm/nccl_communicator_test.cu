// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0
#include "gradsync/comm/nccl_communicator.hpp"

#include <doctest/doctest.h>

#include <numeric>
#include <stdexcept>

#include "tests/comm/nccl_ranks.hpp"
#include "tests/laws/transport_laws.hpp"

using namespace gradsync;
using namespace std::chrono_literals;
using tests::device_vector;
using tests::on_gpus;

namespace {

template <class T>
std::vector<T> counted(std::size_t n, T first) {
  std::vector<T> all(n);
  std::iota(all.begin(), all.end(), first);
  return all;
}

// Whatever is captured on a non-blocking stream of the user's while `f` runs; the graph has what was captured there before and after.
template <class F>
void during_capture(cudaStreamCaptureMode mode, F&& f) {
  cuda_stream user(current_device());
  device_vector<float> a({1, 2}), b({3, 4});
  check(cudaStreamBeginCapture(user.native(), mode), "cudaStreamBeginCapture");
  check(cudaMemcpyAsync(b.data(), a.data(), sizeof(float), cudaMemcpyDeviceToDevice, user.native()), "cudaMemcpyAsync");
  f(user.native());
  cudaGraph_t graph = nullptr;
  check(cudaStreamEndCapture(user.native(), &graph), "cudaStreamEndCapture");
  check(cudaGraphDestroy(graph), "cudaGraphDestroy");
}

}  // namespace

TEST_CASE("a user's own values obey the laws of a communicator over NCCL") {
  int number = 0;
  const auto run = [&](int size, auto body) { on_gpus(size, body, {}, static_cast<unsigned>(++number)); };
  laws::communicator_laws(run, 5);
}

TEST_CASE("each rank gets its part of a sum on the device, and all ranks' parts, in place and elsewhere") {
  for (unsigned seed = 1; seed <= 20; ++seed)
    on_gpus(
        3,
        [](nccl_communicator& comm) {
          const std::size_t n = 1000, at = static_cast<std::size_t>(comm.rank());
          const float sum = 12 * static_cast<float>(n * at) + 6;  // over three ranks, of 4 i + rank + 1
          std::vector<float> mine = counted<float>(3 * n, 0);
          for (float& x : mine) x = 4 * x + static_cast<float>(comm.rank() + 1);
          const device_vector<float> all(mine), part(std::vector<float>(n, -1));
          comm.reduce_scatter(part.view(), all.view());
          std::vector<float> expected = counted<float>(n, 0);
          for (float& x : expected) x = 12 * x + sum;
          CHECK(part.seen() == expected);
          CHECK(all.seen() == mine);
          const extent own{reinterpret_cast<std::byte*>(all.data() + n * at), 0, n};
          comm.reduce_scatter({dtype::float32, std::span(&own, 1)}, all.view());
          std::copy(expected.begin(), expected.end(), mine.begin() + static_cast<std::ptrdiff_t>(n * at));
          CHECK(all.seen() == mine);
          comm.all_gather(all.view(), {dtype::float32, std::span(&own, 1)});
          std::vector<float> whole = counted<float>(3 * n, 0);
          for (float& x : whole) x = 12 * x + 6;
          CHECK(all.seen() == whole);
          const device_vector<float> again(std::vector<float>(3 * n));
          comm.all_gather(again.view(), part.view());
          CHECK(again.seen() == whole);
          CHECK_THROWS_WITH_AS(comm.all_gather(part.view(), part.view()), doctest::Contains("all_gather: the whole has 1000 elements"),
                               usage_error);
        },
        {}, seed);
}

TEST_CASE("ranks that gather different numbers of elements find out") {
  CHECK_THROWS_AS(on_gpus(2,
                          [](nccl_communicator& comm) {
                            const std::size_t n = comm.rank() == 0 ? 10 : 20;
                            const device_vector<float> all(std::vector<float>(2 * n, 0.0f)), part(std::vector<float>(n, 0.0f));
                            comm.all_gather(all.view(), part.view());
                          }),
                  mismatch_error);
}

TEST_CASE("what waits for other streams than those of a capture goes on meanwhile, and what waits for the device says that it can't") {
  for (const auto mode : {cudaStreamCaptureModeThreadLocal, cudaStreamCaptureModeRelaxed, cudaStreamCaptureModeGlobal})
    for (unsigned seed = 1; seed <= 5; ++seed)
      on_gpus(
          mode == cudaStreamCaptureModeGlobal ? 1 : 2,
          [&](nccl_communicator& comm) {
            const device_vector<float> values({1, 2});
            during_capture(mode, [&](cudaStream_t) {
              CHECK(comm.all_reduce(1) == comm.size());
              comm.barrier();
            });
            during_capture(mode, [&](cudaStream_t user) {
              comm.compute_on(user);
              CHECK_THROWS_WITH_AS(comm.barrier(), doctest::Contains("barrier waits for the device, which the capture of a CUDA graph"),
                                   usage_error);
              CHECK_THROWS_WITH_AS(comm.broadcast(values.view(), 0), doctest::Contains("broadcast on the device waits"), usage_error);
              comm.compute_on(nullptr);
            });
            CHECK_FALSE(comm.failed());
            CHECK(comm.all_reduce(1) == comm.size());
          },
          {}, seed);
}

TEST_CASE("a capture that CUDA alone knows of is spoilt by who waits for the whole device, and nothing else is lost") {
  on_gpus(1, [&](nccl_communicator& comm) {
    const device_vector<float> values({1, 2});
    cuda_stream user(comm.device());
    check(cudaStreamBeginCapture(user.native(), cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
    CHECK_THROWS_WITH_AS(comm.broadcast(values.view(), 0), doctest::Contains("broadcast on the device waits for the device"), usage_error);
    cudaGraph_t graph = nullptr;
    CHECK(cudaStreamEndCapture(user.native(), &graph) == cudaErrorStreamCaptureInvalidated);
    CHECK(graph == nullptr);
    cudaGetLastError();
    comm.broadcast(values.view(), 0);
  });
}

TEST_CASE("who has launches of a graph watched, and calls nothing else, hears of a failure") {
  CHECK_THROWS_WITH_AS(on_gpus(2,
                               [](nccl_communicator& comm) {
                                 cuda_stream user(comm.device());
                                 comm.watch(user.native(), "step");
                                 comm.barrier();
                                 if (comm.rank() == 1) throw std::runtime_error("disk full");
                                 while (true) comm.watch(user.native(), "step");
                               }),
                       doctest::Contains("disk full"), std::runtime_error);
}
