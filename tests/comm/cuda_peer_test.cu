// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0
#include "gradsync/comm/cuda_peer.hpp"

#include <doctest/doctest.h>

#include <cstring>

#include "tests/comm/cuda_peer_ranks.hpp"
#include "tests/cuda/device_vector.hpp"
#include "tests/laws/transport_laws.hpp"

using namespace gradsync;
using tests::device_vector;
using tests::staged_communicator;
using tests::staged_run;

TEST_CASE("CUDA peers obey the laws of communicators") {
  laws::communicator_laws(staged_run{{0}}, 4);
  laws::communicator_laws(staged_run{{3, 1}}, 3);
}

TEST_CASE("CUDA peers obey the laws of failure") { laws::failure_laws(staged_run{{0, 1}}); }

TEST_CASE("a part of a group keeps its devices") {
  cuda_peer_group(4, {0, 1}).run([](auto& comm) {
    CHECK(comm.device() == comm.rank() % 2);
    CHECK(current_device() == comm.device());
    auto part = comm.split(comm.rank() / 2);
    CHECK(part.size() == 2);
    CHECK(part.device() == comm.device());
    CHECK(part.all_reduce(comm.rank()) == (comm.rank() < 2 ? 1 : 5));
    staged_communicator staged(part);
    laws::mean_laws_of<float>(staged);
    const aligned_bytes memory = part.allocate(1000);
    CHECK(memory.size() == 1000);
    CHECK(reinterpret_cast<std::uintptr_t>(memory.data()) % 256 == 0);
  });
}

TEST_CASE("each rank gets its part of a sum on the device in the canonical order, and all ranks' parts, in place and elsewhere") {
  const std::size_t n = 1000;
  for (unsigned seed = 1; seed <= 40; ++seed) {
    standin::seed(seed);
    const int size = 1 + static_cast<int>(seed) % 5;
    const std::vector<int> devices = seed % 2 == 0 ? std::vector<int>{0} : std::vector<int>{2, 0};
    cuda_peer_group(size, devices).run([&](cuda_peer_communicator& comm) {
      const auto numbers_of = [&](int rank) { return laws::numbers<float>(comm.size(), rank, n * static_cast<std::size_t>(size)); };
      std::vector<float> sums(n * static_cast<std::size_t>(size));
      std::vector<std::vector<float>> inputs;
      for (int r = 0; r < size; ++r) inputs.push_back(numbers_of(r));
      for (std::size_t i = 0; i < sums.size(); ++i)
        sums[i] = laws::tree_of<float>([&](int r) { return inputs[static_cast<std::size_t>(r)][i]; }, laws::plus<float>, 0, size);
      const std::size_t bytes = sums.size() * sizeof(float);
      const auto all = device_memory(bytes, comm.device()), apart = device_memory(n * sizeof(float), comm.device());
      const extent whole{all.get(), 0, sums.size()}, part{apart.get(), 0, n};
      const extent own{all.get() + n * sizeof(float) * static_cast<std::size_t>(comm.rank()), 0, n};
      const auto view = [](const extent& e) { return buffer_view{dtype::float32, std::span(&e, 1)}; };
      const auto holds_sums = [&] {
        std::vector<float> got(sums.size());
        check(cudaMemcpy(got.data(), all.get(), bytes, cudaMemcpyDeviceToHost), "cudaMemcpy");
        return laws::same_bits(got, sums);
      };
      // What the compute stream has been given so far makes the elements.
      const auto mine = pinned_memory(bytes);
      std::memcpy(mine.get(), inputs[static_cast<std::size_t>(comm.rank())].data(), bytes);
      check(cudaMemcpyAsync(all.get(), mine.get(), bytes, cudaMemcpyHostToDevice, comm.compute_stream()), "cudaMemcpyAsync");
      comm.reduce_scatter(view(part), view(whole));
      comm.reduce_scatter(view(own), view(whole));
      comm.all_gather(view(whole), view(own));
      CHECK_MESSAGE(holds_sums(), "seed ", seed);
      check(cudaMemsetAsync(all.get(), 0, bytes, comm.compute_stream()), "cudaMemsetAsync");
      comm.all_gather(view(whole), view(part));
      CHECK_MESSAGE(holds_sums(), "seed ", seed);
      const buffer_view integers{dtype::int32, std::span(&whole, 1)}, some{dtype::int32, std::span(&part, 1)};
      CHECK_THROWS_WITH_AS(comm.reduce_scatter(some, integers), doctest::Contains("reduce_scatter adds float32 and float64, not int32"),
                           usage_error);
      if (size > 1)
        CHECK_THROWS_WITH_AS(comm.all_gather(view(part), view(part)), doctest::Contains("all_gather: the whole has 1000 elements"),
                             usage_error);
    });
  }
}

TEST_CASE("who has given elements to all may write to them at once, however long the others take to tell their devices to copy them") {
  for (unsigned seed = 1; seed <= 5; ++seed) {
    standin::seed(seed);
    cuda_peer_group(2, {0, 1}).run([&](cuda_peer_communicator& comm) {
      const std::size_t n = 4000;
      device_vector<float> mine(std::vector<float>(2 * n, comm.rank() == 0 ? 7 : 0));
      std::vector<extent> apart;  // one by one
      for (std::size_t i = 0; i < n; ++i) apart.push_back({reinterpret_cast<std::byte*>(mine.data() + 2 * i), i, 1});
      const extent whole{reinterpret_cast<std::byte*>(mine.data()), 0, n};
      comm.broadcast({dtype::float32, comm.rank() == 0 ? std::span(&whole, 1) : std::span<const extent>(apart)}, 0);
      if (comm.rank() == 0) mine.set(std::vector<float>(2 * n, 1));
      std::vector<float> expected(2 * n);
      for (std::size_t i = 0; i < n; ++i) expected[2 * i] = 7;
      if (comm.rank() == 1) CHECK_MESSAGE(mine.seen() == expected, "seed ", seed);
      comm.barrier();
    });
  }
}

TEST_CASE("ranks of which each takes itself for the root find out") {
  const auto body = [](cuda_peer_communicator& comm) {
    const device_vector<float> values({1, 2, 3});
    comm.broadcast(values.view(), comm.rank());
  };
  CHECK_THROWS_AS(cuda_peer_group(2).run(body), mismatch_error);
}

TEST_CASE("a group is refused on devices that there are not, and where it is too large for one pass") {
  CHECK_THROWS_AS(cuda_peer_group(2, {0, 64}), usage_error);
  CHECK_THROWS_AS(cuda_peer_group(2, {-1}), usage_error);
  CHECK_THROWS_AS(cuda_peer_group(2, std::vector<int>{}), usage_error);
  CHECK_THROWS_AS(cuda_peer_group(65), usage_error);
}
