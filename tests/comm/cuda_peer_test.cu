// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0
#include "gradsync/comm/cuda_peer.hpp"

#include <doctest/doctest.h>

#include <cstring>
#include <deque>

#include "gradsync/collective/hierarchical.hpp"
#include "gradsync/comm/threads.hpp"
#include "tests/cuda/staged.hpp"
#include "tests/cuda_standin/standin.hpp"
#include "tests/laws/transport_laws.hpp"

using namespace gradsync;

namespace cuda_peer_test {

// A channel for buffers in host memory, which stand on the device from `post` to `drain`.
class staged_channel {
 public:
  using stream_type = cuda_stream;
  static constexpr bool fused_is_weighted = true;

  staged_channel(cuda_peer_channel inner, std::size_t slots) : inner_(std::move(inner)), stages_(slots) {}

  ticket post(const program& p, const contribution& mine) {
    contribution there = mine;
    auto& stage = stages_[posted_++ % stages_.size()];
    if (const std::size_t room = tests::stage::room_for(mine.buffer); !stage || stage->capacity() < room)
      stage = std::make_unique<tests::stage>(inner_.stream().device(), room);
    stage->clear();
    there.buffer = stage->add(mine.buffer);
    stage->send(inner_.stream().native());
    return inner_.post(p, there);
  }
  bool exchange(const program& p, const ticket& t, int round, std::uint32_t piece, const deadline& until) {
    return inner_.exchange(p, t, round, piece, until);
  }
  bool reduce(const ticket& t, const deadline& until) { return inner_.reduce(t, until); }
  bool drain(const program& p, const ticket& t, const deadline& until) {
    if (!inner_.drain(p, t, until)) return false;
    stages_[t.sequence % stages_.size()]->fetch(inner_.stream().native());
    return true;
  }
  double total_weight(const ticket& t) {
    double there = 0;
    const double* const at = inner_.total(t);  // before native(), which sends off what writes there
    check(cudaMemcpyAsync(&there, at, sizeof there, cudaMemcpyDeviceToHost, inner_.stream().native()), "cudaMemcpyAsync");
    check(cudaStreamSynchronize(inner_.stream().native()), "cudaStreamSynchronize");
    CHECK(there == inner_.total_weight(t));
    return there;
  }
  const double* total(const ticket& t) { return inner_.total(t); }
  cuda_stream& stream() { return inner_.stream(); }
  void leave() { inner_.leave(); }
  std::size_t scratch_bytes() const { return inner_.scratch_bytes(); }

 private:
  cuda_peer_channel inner_;
  std::vector<std::unique_ptr<tests::stage>> stages_;
  std::size_t posted_ = 0;
};
static_assert(fused_channel<staged_channel>);

class staged_communicator {
 public:
  static constexpr memory_space space = memory_space::host;

  explicit staged_communicator(cuda_peer_communicator& inner) : inner_(&inner) {}
  int rank() const { return inner_->rank(); }
  int size() const { return inner_->size(); }
  staged_channel open(std::size_t slots) { return {inner_->open(slots), slots}; }
  deadline limit() const { return inner_->limit(); }
  void fail(std::exception_ptr cause) { inner_->fail(std::move(cause)); }
  void abandon(std::exception_ptr cause) { inner_->abandon(std::move(cause)); }
  void barrier() { inner_->barrier(); }
  template <class T>
  auto all_reduce(T values, reduce_op op = reduce_op::sum) {
    return inner_->all_reduce(values, op);
  }
  template <class T>
  auto broadcast(T values, int root = 0) {
    return inner_->broadcast(values, root);
  }
  void broadcast(const buffer_view& values, int root) {
    tests::stage stage(inner_->device(), tests::stage::room_for(values));
    const buffer_view there = stage.add(values);
    stage.send(inner_->compute_stream());
    inner_->broadcast(there, root);
    stage.fetch(inner_->compute_stream());
  }

 private:
  cuda_peer_communicator* inner_;
};

// Ranks on so many devices, in an order of the seed's.
struct staged_run {
  std::vector<int> devices = {0};
  unsigned* seed = nullptr;

  template <class F>
  void operator()(int size, F body) const {
    if (seed != nullptr) standin::seed((*seed)++);
    cuda_peer_group(size, devices).run([&](cuda_peer_communicator& comm) {
      staged_communicator staged(comm);
      body(staged);
    });
  }
};

}  // namespace cuda_peer_test

using namespace cuda_peer_test;

TEST_CASE("ranks on one device, and on several, come to the mean of every strategy") {
  unsigned seed = 1;
  laws::mean_laws(staged_run{{0}, &seed}, {1, 2, 3, 5, 8});
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

TEST_CASE("channels between CUDA peers obey the laws of channels") {
  unsigned seed = 100;
  laws::channel_laws(staged_run{{0}, &seed});
  laws::channel_laws(staged_run{{2, 0}, &seed});
}

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

TEST_CASE("a group is refused on devices that there are not, and where it is too large for one pass") {
  CHECK_THROWS_AS(cuda_peer_group(2, {0, 64}), usage_error);
  CHECK_THROWS_AS(cuda_peer_group(2, {-1}), usage_error);
  CHECK_THROWS_AS(cuda_peer_group(2, std::vector<int>{}), usage_error);
  CHECK_THROWS_AS(cuda_peer_group(65), usage_error);
}
