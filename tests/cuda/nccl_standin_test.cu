// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

// The NCCL that stands in catches what it is there for: each fault is planted here, in programs of raw NCCL calls.
#include "tests/cuda_standin/nccl_standin.hpp"

#include <cuda_runtime_api.h>
#include <doctest/doctest.h>
#include <nccl.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "tests/cuda_standin/standin.hpp"

using namespace std::chrono_literals;

namespace {

struct rank_state {
  int rank;
  ncclComm_t comm;
  cudaStream_t compute, communication;
  float *a, *b;  // 100 elements each
};

void fill(const rank_state& r, float* to, float x) {
  static thread_local std::vector<float> values;
  values.assign(100, x);
  cudaMemcpyAsync(to, values.data(), 400, cudaMemcpyHostToDevice, r.compute);
}

// Waits a little for a stream; whether it is done.
bool done_soon(cudaStream_t stream) {
  for (int i = 0; i < 50; ++i) {
    if (cudaStreamQuery(stream) == cudaSuccess) return true;
    std::this_thread::sleep_for(1ms);
  }
  return false;
}

// `body` on two ranks of raw NCCL, whose communicators are aborted at the end.
template <class F>
void on_two_ranks(unsigned seed, F&& body) {
  standin::reset();
  standin::devices(2);
  standin::seed(seed);
  standin::nccl::set({}, seed);
  ncclUniqueId id;
  CHECK(ncclGetUniqueId(&id) == ncclSuccess);
  const auto run = [&](int rank) {
    cudaSetDevice(rank);
    rank_state r{};
    r.rank = rank;
    CHECK(ncclCommInitRank(&r.comm, 2, id, rank) == ncclSuccess);
    for (cudaStream_t* s : {&r.compute, &r.communication}) cudaStreamCreateWithFlags(s, cudaStreamNonBlocking);
    for (float** p : {&r.a, &r.b}) cudaMalloc(reinterpret_cast<void**>(p), 400);
    body(r);
    standin::nccl::end_of_thread();
    CHECK(ncclCommAbort(r.comm) == ncclSuccess);
    cudaDeviceSynchronize();
    for (cudaStream_t s : {r.compute, r.communication}) cudaStreamDestroy(s);
    for (float* p : {r.a, r.b}) cudaFree(p);
  };
  std::thread other(run, 1);
  run(0);
  other.join();
}

bool caught(const std::string& part) {
  for (const std::string& fault : standin::nccl::faults())
    if (fault.find(part) != std::string::npos) return true;
  return false;
}

// One step: pack on the compute stream, sum on the other, read on the compute stream. Whether the result is right.
bool one_step(const rank_state& r, bool wait_before, bool wait_after) {
  cudaEvent_t packed, summed;
  cudaEventCreateWithFlags(&packed, cudaEventDisableTiming), cudaEventCreateWithFlags(&summed, cudaEventDisableTiming);
  fill(r, r.b, -1);
  cudaStreamSynchronize(r.compute);
  fill(r, r.a, static_cast<float>(r.rank + 1));
  cudaEventRecord(packed, r.compute);
  if (wait_before) cudaStreamWaitEvent(r.communication, packed, 0);
  ncclAllReduce(r.a, r.a, 100, ncclFloat32, ncclSum, r.comm, r.communication);
  cudaEventRecord(summed, r.communication);
  if (wait_after) cudaStreamWaitEvent(r.compute, summed, 0);
  cudaMemcpyAsync(r.b, r.a, 400, cudaMemcpyDeviceToDevice, r.compute);
  cudaStreamSynchronize(r.compute), cudaStreamSynchronize(r.communication);
  std::vector<float> result(100);
  cudaMemcpy(result.data(), r.b, 400, cudaMemcpyDeviceToHost);
  cudaEventDestroy(packed), cudaEventDestroy(summed);
  return result == std::vector<float>(100, 3);
}

int wrong_of_100(bool wait_before, bool wait_after) {
  std::atomic<int> wrong{0};
  for (unsigned seed = 0; seed < 100; ++seed) {
    std::atomic<bool> right{true};
    on_two_ranks(seed, [&](const rank_state& r) {
      if (!one_step(r, wait_before, wait_after)) right = false;
    });
    if (!right) ++wrong;
  }
  return wrong;
}

}  // namespace

TEST_CASE("a wait that is missing before or after an all-reduce gives wrong numbers within 100 seeds, and both of them right ones always") {
  CHECK(wrong_of_100(true, true) == 0);
  CHECK(wrong_of_100(false, true) > 0);
  CHECK(wrong_of_100(true, false) > 0);
}

TEST_CASE("collectives in another order on one rank, or of another count, type or call, never end; an abort ends them") {
  const auto hangs = [](auto&& calls) {
    std::atomic<int> ended{0}, ended_later{0};
    on_two_ranks(5, [&](const rank_state& r) {
      calls(r);
      if (done_soon(r.communication)) ++ended;
      std::this_thread::sleep_for(60ms);
      CHECK(ncclCommAbort(r.comm) == ncclSuccess);
      if (done_soon(r.communication)) ++ended_later;
      ncclUniqueId own;  // so that the end finds a communicator
      ncclGetUniqueId(&own);
      CHECK(ncclCommInitRank(&const_cast<rank_state&>(r).comm, 1, own, 0) == ncclSuccess);
    });
    CHECK(ended_later == 2);
    return ended == 0;
  };
  const auto sum = [](const rank_state& r, float* p, std::size_t n, ncclDataType_t type = ncclFloat32) {
    return ncclAllReduce(p, p, n, type, ncclSum, r.comm, r.communication);
  };
  CHECK(hangs([&](const rank_state& r) { sum(r, r.rank == 0 ? r.a : r.b, r.rank == 0 ? 10 : 20), sum(r, r.a, r.rank == 0 ? 20 : 10); }));
  CHECK(hangs([&](const rank_state& r) { sum(r, r.a, r.rank == 0 ? 10 : 11); }));
  CHECK(hangs([&](const rank_state& r) { sum(r, r.a, 10, r.rank == 0 ? ncclFloat32 : ncclInt32); }));
  CHECK(hangs(
      [&](const rank_state& r) { r.rank == 0 ? sum(r, r.a, 10) : ncclBroadcast(r.a, r.a, 10, ncclFloat32, 0, r.comm, r.communication); }));
  CHECK(hangs([&](const rank_state& r) {  // both send first, outside a group
    ncclSend(r.a, 10, ncclFloat32, 1 - r.rank, r.comm, r.communication);
    ncclRecv(r.b, 10, ncclFloat32, 1 - r.rank, r.comm, r.communication);
  }));
  CHECK_FALSE(hangs([&](const rank_state& r) { sum(r, r.a, 10), sum(r, r.b, 20); }));
  CHECK_FALSE(hangs([&](const rank_state& r) { sum(r, r.a, r.rank == 0 ? 0 : 0); }));
  CHECK_FALSE(hangs([&](const rank_state& r) {
    ncclGroupStart();
    ncclSend(r.a, 10, ncclFloat32, 1 - r.rank, r.comm, r.communication);
    ncclRecv(r.b, 10, ncclFloat32, 1 - r.rank, r.comm, r.communication);
    ncclGroupEnd();
  }));
}

TEST_CASE("count 0 is dropped on the rank that gives it, which so takes no part") {
  on_two_ranks(1, [](const rank_state& r) {
    ncclAllReduce(r.a, r.a, r.rank == 0 ? 0 : 10, ncclFloat32, ncclSum, r.comm, r.communication);
    CHECK(done_soon(r.communication) == (r.rank == 0));
  });
}

TEST_CASE("nothing of a group begins before its outermost end, and a group that is not closed is caught") {
  const std::uint64_t before = standin::nccl::begun();
  on_two_ranks(1, [&](const rank_state& r) {
    ncclGroupStart();
    ncclGroupStart();
    ncclAllReduce(r.a, r.a, 10, ncclFloat32, ncclSum, r.comm, r.communication);
    ncclGroupEnd();
    CHECK(done_soon(r.communication));  // of nothing
  });
  CHECK(standin::nccl::begun() == before);
  CHECK(caught("groups unclosed"));
}

TEST_CASE("memory that was freed, is the host's or another device's, is caught") {
  on_two_ranks(1, [](const rank_state& r) {
    float* freed = nullptr;
    cudaMalloc(reinterpret_cast<void**>(&freed), 400);
    cudaFree(freed);
    CHECK(ncclAllReduce(freed, freed, 100, ncclFloat32, ncclSum, r.comm, r.communication) == ncclInvalidArgument);
    std::vector<float> host(100);
    CHECK(ncclAllReduce(host.data(), r.a, 100, ncclFloat32, ncclSum, r.comm, r.communication) == ncclInvalidArgument);
    cudaSetDevice(1 - r.rank);
    CHECK(ncclAllReduce(r.a, r.a, 100, ncclFloat32, ncclSum, r.comm, r.communication) == ncclInvalidUsage);
    cudaSetDevice(r.rank);
  });
  CHECK(caught("memory that is not the device's"));
  CHECK(caught("current, not the communicator's"));
}

TEST_CASE("two threads at once on one communicator are caught") {
  on_two_ranks(1, [](const rank_state& r) {
    ncclGroupStart();
    ncclAllReduce(r.a, r.a, 10, ncclFloat32, ncclSum, r.comm, r.communication);
    std::thread([&] {
      cudaSetDevice(r.rank);
      CHECK(ncclAllReduce(r.b, r.b, 10, ncclFloat32, ncclSum, r.comm, r.communication) == ncclInvalidUsage);
    }).join();
    ncclGroupEnd();
    CHECK(done_soon(r.communication));
  });
  CHECK(caught("two threads at once"));
}

TEST_CASE("use after an abort, and one end of the thread blocks alone, are refused") {
  on_two_ranks(1, [](const rank_state& r) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.minCTAs = 4;
    ncclComm_t none = nullptr;
    ncclUniqueId id;
    ncclGetUniqueId(&id);
    CHECK(ncclCommInitRankConfig(&none, 1, id, 0, &config) == ncclInvalidArgument);
    ncclComm_t alone = nullptr;
    CHECK(ncclCommInitRank(&alone, 1, id, 0) == ncclSuccess);
    CHECK(ncclCommAbort(alone) == ncclSuccess);
    CHECK(ncclAllReduce(r.a, r.a, 10, ncclFloat32, ncclSum, alone, r.communication) == ncclInvalidArgument);
  });
  CHECK(caught("with a communicator that has ended"));
}

TEST_CASE("a sum over four ranks is the same on all ranks, but not the tree's") {
  standin::reset();
  standin::devices(4);
  standin::nccl::set({});
  ncclUniqueId id;
  ncclGetUniqueId(&id);
  const float inputs[] = {1e8f, 1, -1e8f, 1};
  std::vector<std::vector<float>> results(4);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 4; ++rank)
    threads.emplace_back([&, rank] {
      cudaSetDevice(rank);
      ncclComm_t comm = nullptr;
      CHECK(ncclCommInitRank(&comm, 4, id, rank) == ncclSuccess);
      float* p = nullptr;
      cudaMalloc(reinterpret_cast<void**>(&p), 400);
      const std::vector<float> mine(100, inputs[rank]);
      cudaMemcpy(p, mine.data(), 400, cudaMemcpyHostToDevice);
      ncclAllReduce(p, p, 100, ncclFloat32, ncclSum, comm, nullptr);
      cudaStreamSynchronize(nullptr);
      results[static_cast<std::size_t>(rank)].resize(100);
      cudaMemcpy(results[static_cast<std::size_t>(rank)].data(), p, 400, cudaMemcpyDeviceToHost);
      CHECK(ncclCommFinalize(comm) == ncclSuccess);
      CHECK(ncclCommDestroy(comm) == ncclSuccess);
      cudaFree(p);
    });
  for (std::thread& t : threads) t.join();
  for (const auto& result : results) CHECK(result == results[0]);
  CHECK(results[0] != std::vector<float>(100, (inputs[0] + inputs[1]) + (inputs[2] + inputs[3])));
  CHECK(standin::nccl::faults().empty());
}
