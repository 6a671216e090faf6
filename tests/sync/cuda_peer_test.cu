// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

// The synchronizer over CUDA devices: the numbers of ranks that are threads of the host, to the bit, in any order that CUDA allows.
#include "gradsync/comm/cuda_peer.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <cmath>
#include <cstring>
#include <optional>
#include <thread>
#include <vector>

#include "gradsync/collective/halving_doubling.hpp"
#include "gradsync/collective/recursive_doubling.hpp"
#include "gradsync/collective/ring.hpp"
#include "gradsync/comm/threads.hpp"
#include "gradsync/synchronizer.hpp"
#include "tests/cuda/device_tensor.hpp"
#include "tests/cuda_standin/standin.hpp"

using namespace gradsync;
using tests::device_tensor;

namespace {

template <class Array>
struct parameter_of {
  explicit parameter_of(std::size_t n) : value(n), grad(n) {}
  Array value, grad;
};

template <class Array>
struct model {
  parameter_of<Array> first{5}, second{3000}, third{17};
};

float gradient(int rank, int update, std::size_t i) {
  return static_cast<float>((rank * 7 + update * 5) % 11) + 0.3f * static_cast<float>(i % 13) + 1e-5f * static_cast<float>(rank);
}

// How a rank's tensors are written and read, on the stream where it computes.
void write(std::vector<float>& to, const std::vector<float>& from, std::vector<std::shared_ptr<std::byte>>&) { to = from; }
std::vector<float> read(const std::vector<float>& from) { return from; }
void write(device_tensor& to, const std::vector<float>& from, std::vector<std::shared_ptr<std::byte>>& lent) {
  lent.push_back(pinned_memory(from.size() * sizeof(float)));  // until the stream has read it
  std::memcpy(lent.back().get(), from.data(), from.size() * sizeof(float));
  check(cudaMemcpyAsync(to.memory.get(), lent.back().get(), from.size() * sizeof(float), cudaMemcpyHostToDevice, nullptr),
        "cudaMemcpyAsync");
}
std::vector<float> read(const device_tensor& from) {
  const auto to = pinned_memory(from.count * sizeof(float));
  check(cudaMemcpyAsync(to.get(), from.memory.get(), from.count * sizeof(float), cudaMemcpyDeviceToHost, nullptr), "cudaMemcpyAsync");
  check(cudaStreamSynchronize(nullptr), "cudaStreamSynchronize");
  const auto* begin = reinterpret_cast<const float*>(to.get());
  return {begin, begin + from.count};
}

// Two updates; all that a rank has read, values first. A rank's own values differ from rank 0's, which all take.
template <class Array, class Sum, class Communicator>
std::vector<float> train(Communicator& comm, const Sum& strategy, layout how) {
  model<Array> net;
  std::vector<std::shared_ptr<std::byte>> lent;
  const auto each = [&](auto&& f) { f(net.first), f(net.second), f(net.third); };
  const auto size_of_parameter = [](const auto& p) { return read(p.value).size(); };
  each([&](auto& p) { write(p.value, std::vector<float>(size_of_parameter(p), static_cast<float>(comm.rank() + 1)), lent); });
  std::vector<float> seen;
  const auto keep = [&](const auto& array) {
    const auto values = read(array);
    seen.insert(seen.end(), values.begin(), values.end());
  };
  synchronizer sync{net, collective{comm, strategy}, {.bucket_bytes = 4000, .layout = how}};
  each([&](auto& p) { keep(p.value); });
  for (int update = 0; update < 2; ++update) {
    sync.begin({.weight = 1 + 2 * comm.rank()});
    const auto backward = [&](auto& p) {
      std::vector<float> grad(size_of_parameter(p));
      for (std::size_t i = 0; i < grad.size(); ++i) grad[i] = gradient(comm.rank(), update, i);
      write(p.grad, grad, lent);
      sync.mark_ready(p);
    };
    backward(net.third), backward(net.second), backward(net.first);
    sync.finish();
    each([&](auto& p) { keep(p.grad); });
  }
  return seen;
}

template <class Sum>
void same_as_threads(const Sum& strategy, int ranks, const std::vector<int>& devices, layout how) {
  std::vector<float> wanted;
  thread_group(ranks).run([&](thread_communicator& comm) {
    auto mine = train<std::vector<float>>(comm, strategy, layout::automatic);
    if (comm.rank() == 0) wanted = std::move(mine);
  });
  for (unsigned seed = 1; seed <= 10; ++seed) {
    standin::seed(seed);
    cuda_peer_group(ranks, devices).run([&](cuda_peer_communicator& comm) {
      const bool same = train<device_tensor>(comm, strategy, how) == wanted;
      CHECK_MESSAGE(same, "rank ", comm.rank(), " of ", ranks, ", seed ", seed, ", layout ", static_cast<int>(how));
    });
  }
}

}  // namespace

TEST_CASE("ranks on CUDA devices end with the bits of ranks on the host") {
  for (const layout how : {layout::in_place, layout::packed}) {
    same_as_threads(native{}, 1, {0}, how);
    same_as_threads(native{}, 3, {0}, how);
    same_as_threads(native{}, 4, {0, 1}, how);
    same_as_threads(halving_doubling{}, 4, {1, 0}, how);
    same_as_threads(recursive_doubling{}, 3, {0, 1, 2}, how);
    same_as_threads(ring{}, 3, {0}, how);
  }
}

TEST_CASE("states are rank 0's at the start and on demand, whether they lie on the device or on the host") {
  struct net_type {
    parameter_of<device_tensor> weight{5};
    state<device_tensor> there{device_tensor(3)};
    state<std::vector<float>> here;
    state<long> steps;
  };
  cuda_peer_group(3, {0, 1}).run([](cuda_peer_communicator& comm) {
    net_type net;
    std::vector<std::shared_ptr<std::byte>> lent;
    const auto set = [&] {
      const auto mine = static_cast<float>(comm.rank() + 7);
      write(net.there, std::vector<float>(3, mine), lent);
      net.here->assign(4, mine);
      net.steps = comm.rank() + 7;
    };
    const auto is_rank_0s = [&] {
      return read(net.there) == std::vector<float>(3, 7) && *net.here == std::vector<float>(4, 7) && net.steps.value == 7;
    };
    set();
    synchronizer sync{net, comm};
    CHECK(is_rank_0s());
    set();
    sync.broadcast_state();
    CHECK(is_rank_0s());
  });
}

TEST_CASE("steps between CUDA peers can't be captured, and say so before anything is lost") {
  cuda_peer_group(2).run([](cuda_peer_communicator& comm) {
    model<device_tensor> net;
    synchronizer sync{net, comm};
    cuda_stream user(comm.device());
    for (int update = 0; update < 2; ++update) {
      check(cudaStreamBeginCapture(user.native(), cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
      CHECK_THROWS_WITH_AS(sync.mark_ready(net.third, user.native()),
                           doctest::Contains("ranks of a cuda_peer_group meet on the host, so no CUDA graph can capture their steps"),
                           usage_error);
      cudaGraph_t graph = nullptr;
      check(cudaStreamEndCapture(user.native(), &graph), "cudaStreamEndCapture");
      check(cudaGraphDestroy(graph), "cudaGraphDestroy");
      sync.mark_all_ready(user.native());
      CHECK(sync.finish(user.native()).updated);
    }
  });
}

TEST_CASE("a thread that drives the device's collectives is refused before anything is allocated") {
  cuda_peer_group(2).run([](cuda_peer_communicator& comm) {
    model<device_tensor> net;
    comm.barrier();  // the other rank has its model too, and allocates nothing while this one counts
    const std::size_t before = standin::alive().size();
    CHECK_THROWS_WITH_AS((synchronizer{net, comm, {.progress = progress::thread}}),
                         doctest::Contains("progress::thread is not to be had here: the device drives its collectives itself"),
                         usage_error);
    CHECK(standin::alive().size() == before);
    comm.barrier();
  });
}

TEST_CASE("a synchronizer that goes before its update is finished waits for the peers' devices that are in its gradients") {
  for (unsigned seed = 1; seed <= 10; ++seed) {
    standin::seed(seed);
    std::atomic<bool> freed{false};
    const auto body = [&](cuda_peer_communicator& comm) {
      std::optional<model<device_tensor>> net(std::in_place);
      std::optional<synchronizer<model<device_tensor>, cuda_peer_communicator>> sync;
      sync.emplace(*net, comm, synchronizer_options{.layout = layout::in_place});
      if (comm.rank() == 0) sync->mark_all_ready();
      comm.barrier();
      if (comm.rank() == 1) sync->mark_all_ready();  // all have posted, so its device is told to read and write rank 0's gradients
      comm.barrier();
      if (comm.rank() == 0) {
        sync.reset();
        net.reset();
        freed = true;
        comm.check();  // throws
      }
      while (!freed) std::this_thread::yield();
      CHECK_MESSAGE(cudaDeviceSynchronize() == cudaSuccess, "seed ", seed);
    };
    CHECK_THROWS_WITH_AS(cuda_peer_group(2, {0, 1}).run(body), doctest::Contains("its synchronizer was destroyed before finish()"),
                         transport_error);
  }
}
