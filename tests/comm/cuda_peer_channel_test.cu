// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0
#include "gradsync/comm/cuda_peer_channel.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>
#include <vector>

#include "tests/comm/cuda_peer_ranks.hpp"
#include "tests/cuda/device_vector.hpp"
#include "tests/laws/transport_laws.hpp"

using namespace gradsync;
using tests::device_vector;
using tests::staged_communicator;
using tests::staged_run;

TEST_CASE("ranks on one device, and on several, come to the mean of every strategy") {
  unsigned seed = 1;
  laws::mean_laws(staged_run{{0}, &seed}, {1, 2, 3, 5});
  laws::mean_laws(staged_run{{0, 1, 2}, &seed}, {3, 4});
}

TEST_CASE("every strategy comes to the mean in any order that CUDA allows") {
  for (unsigned seed = 1; seed <= 60; ++seed) {
    standin::seed(seed);
    const int size = 2 + static_cast<int>(seed) % 4;
    cuda_peer_group(size, seed % 2 == 0 ? std::vector<int>{0} : std::vector<int>{2, 0}).run([&](cuda_peer_communicator& comm) {
      staged_communicator staged(comm);
      auto channel = staged.open(2);
      laws::each_program(comm.rank(), comm.size(), [&](const program& p, bool canonical) {
        for (const std::uint64_t count : {70u, 500u})
          laws::mean_law<float>(staged, channel, p, canonical, {.count = count, .seed = seed + count, .weighted = true});
      });
    });
  }
}

TEST_CASE("a rank may write to its buffer as soon as its stream comes to it after a drain, though no host has waited for a device") {
  for (unsigned seed = 1; seed <= 10; ++seed) {
    standin::seed(seed);
    const int size = 2 + static_cast<int>(seed) % 3;
    cuda_peer_group(size, seed % 2 == 0 ? std::vector<int>{0} : std::vector<int>{2, 0}).run([&](cuda_peer_communicator& comm) {
      laws::each_program(comm.rank(), comm.size(), [&](const program& p, bool) {
        auto channel = comm.open(1);
        const device_vector<float> buffer(std::vector<float>(300));
        std::vector<laws::mean_case<float>> cases;
        std::vector<device_vector<float>> inputs, results;
        for (std::uint64_t k = 0; k < 4; ++k) {
          cases.push_back({.count = 300, .seed = seed + k, .kind = laws::numbers_kind::integers});
          inputs.emplace_back(cases[k].input(comm.rank()));
          results.emplace_back(std::vector<float>(300));
        }
        laws::lending(comm, channel, [&] {
          for (std::size_t k = 0; k < cases.size(); ++k) {
            channel.stream().copy(buffer.view(), inputs[k].view());
            cursor at{.place = channel.post(p, {.buffer = buffer.view(), .weight = 1})};
            CHECK(run(p, channel, at, comm.limit()));
            CHECK(channel.drain(p, at.place, comm.limit()));
            channel.stream().copy(results[k].view(), buffer.view());
          }
          channel.stream().flush();
        });
        for (std::size_t k = 0; k < cases.size(); ++k)
          CHECK_MESSAGE(cases[k].is_mean(results[k].values(), p, true), p.name, " on ", size, " ranks, seed ", seed, ", the ", k, "th");
        comm.barrier();
      });
    });
  }
}

TEST_CASE("channels between CUDA peers obey the laws of channels") {
  unsigned seed = 100;
  laws::channel_laws(staged_run{{0}, &seed});
  laws::channel_laws(staged_run{{2, 0}, &seed});
}

TEST_CASE("when leave() returns, what a rank's own stream was given is done, though it has posted nothing") {
  for (unsigned seed = 1; seed <= 20; ++seed) {
    standin::seed(seed);
    cuda_peer_group(1).run([&](cuda_peer_communicator& comm) {
      auto channel = comm.open(1);
      const device_vector<float> gradient(std::vector<float>(500, 3)), slot(std::vector<float>(500));
      channel.stream().copy(slot.view(), gradient.view());
      channel.stream().flush();
      channel.leave();
      CHECK_MESSAGE(slot.seen() == std::vector<float>(500, 3), "seed ", seed);
    });
  }
}

TEST_CASE("when leave() returns, a rank's memory can be freed, although a peer was about to give its device work there") {
  for (unsigned seed = 1; seed <= 5; ++seed) {
    standin::seed(seed);
    std::atomic<bool> on_its_way{false};
    const auto body = [&](cuda_peer_communicator& comm) {
      auto channel = comm.open(1);
      const program p = compile(native{}, comm.rank(), 2);
      const std::size_t n = 4000;
      const device_vector<float> gradient(std::vector<float>(2 * n, 1));
      std::vector<extent> apart;  // one by one, so that a pass takes some time to give
      for (std::size_t i = 0; i < n; ++i) apart.push_back({reinterpret_cast<std::byte*>(gradient.data() + 2 * i), i, 1});
      laws::lending(comm, channel, [&] {
        const ticket t = channel.post(p, {.buffer = {dtype::float32, apart}, .weight = 1});
        if (comm.rank() == 0) {
          while (!on_its_way) std::this_thread::yield();
          std::this_thread::sleep_for(std::chrono::milliseconds(2));
          throw std::runtime_error("disk full");
        }
        on_its_way = true;
        CHECK(channel.reduce(t, comm.limit()));
        CHECK(cudaStreamSynchronize(channel.stream().native()) == cudaSuccess);
      });
    };
    CHECK_THROWS_WITH_AS(cuda_peer_group(2).run(body), "disk full", std::runtime_error);
  }
}
