// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

#include "gradsync/comm/processes.hpp"

#include <doctest/doctest.h>

#include <filesystem>

#include "gradsync/comm/threads.hpp"
#include "gradsync/synchronizer.hpp"
#include "tests/laws/over_forks.hpp"
#include "tests/sync/models.hpp"

using namespace gradsync;
using namespace std::chrono_literals;
using laws::over_forks;

REGISTER_LISTENER("failures", 1, laws::failure_counter);

namespace {

// A model's values after some updates on uneven batches.
template <class Comm>
std::vector<float> trained(Comm& comm, synchronizer_options options = {}, int updates = 5) {
  test::layers net = test::make_layers({1000, 77});
  for (test::param& p : net.layer) p.grad = p.value;
  synchronizer sync{net, comm, options};
  for (int update = 0; update < updates; ++update) {
    sync.begin({.weight = comm.rank() + update % 2});
    for (test::param* p : {&net.layer[1], &net.layer[0]}) {
      p->grad = laws::numbers<float>(static_cast<std::uint64_t>(update), comm.rank(), p->value.size());
      sync.mark_ready(*p);
    }
    sync.finish();
    for (test::param* p : {&net.layer[0], &net.layer[1]})
      for (std::size_t i = 0; i < p->value.size(); ++i) p->value[i] -= 0.125f * p->grad[i];
  }
  return net.layer[0].value;
}

}  // namespace

TEST_CASE("a model trained by processes ends with the bits of one trained by threads") {
  for (const int size : {1, 2, 3, 4}) {
    std::vector<float> by_threads;
    thread_group(size).run([&](auto& comm) {
      const auto values = trained(comm);
      if (comm.rank() == 0) by_threads = values;
    });
    for (const auto how : {layout::automatic, layout::packed})
      over_forks(size, [&](auto& comm) { CHECK(laws::same_bits(trained(comm, {.layout = how}), by_threads)); });
  }
}

TEST_CASE("gradients that live in shared memory are summed where they are") {
  over_forks(3, [](auto& comm) {
    struct arena {
      std::vector<float> value;
      std::span<float> grad;
    };
    const aligned_bytes memory = comm.allocate(4000);
    arena net{std::vector<float>(1000, 1), {reinterpret_cast<float*>(memory.data()), 1000}};
    synchronizer sync{net, comm, {.layout = layout::adopted}};
    const float* const at = net.grad.data();
    for (int update = 0; update < 3; ++update) {
      std::fill(net.grad.begin(), net.grad.end(), static_cast<float>(comm.rank() + update));
      sync.mark_ready(net);
      sync.finish();
      CHECK(net.grad.data() == at);
      CHECK((net.grad[0] == static_cast<float>(1 + update) && net.grad[999] == static_cast<float>(1 + update)));
    }
  });
}

TEST_CASE("processes of different hosts are told to take another transport") {
  launch zero = laws::forked_launch(2);
  zero.host = "a";
  const auto children = laws::fork_ranks(zero, [](launch me) {
    me.host = "b";
    CHECK_THROWS_WITH_AS(process_group(me).run([](auto&) {}),
                         "gradsync[rank 1]: rank 0 is on another host; a process_group has one, groups over hosts need NCCL or MPI",
                         usage_error);
    return 0;
  });
  CHECK_THROWS_WITH_AS(process_group(zero).run([](auto&) {}),
                       "gradsync[rank 0]: rank 1 is on another host; a process_group has one, groups over hosts need NCCL or MPI",
                       usage_error);
  int how = 0;
  CHECK((waitpid(children[1], &how, 0) == children[1] && WIFEXITED(how) && WEXITSTATUS(how) == 0));
}

TEST_CASE("what makes no group is refused, and nothing is left among the host's shared memory") {
  CHECK_THROWS_AS(process_group(launch{}, {.deadline = 0s}), usage_error);
  CHECK_THROWS_AS(process_group({.rank = 0, .size = 257}), usage_error);
  CHECK_THROWS_AS(process_group({.rank = 0, .size = 2}).run([](auto&) {}), usage_error);  // no address
  process_group(launch{}).run([](auto& comm) {
    const aligned_bytes memory = comm.allocate(1 << 20);
    CHECK(comm.all_reduce(3) == 3);
    for (const auto& file : std::filesystem::directory_iterator("/dev/shm"))
      CHECK(file.path().filename().string().find("gradsync") == std::string::npos);
  });
}
