// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0
#include "gradsync/comm/nccl.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <stdexcept>

#include "gradsync/collective/compile.hpp"
#include "gradsync/collective/native.hpp"
#include "gradsync/collective/ring.hpp"
#include "gradsync/collective/run.hpp"
#include "tests/comm/nccl_ranks.hpp"

using namespace gradsync;
using namespace std::chrono_literals;
using tests::device_vector;
using tests::on_gpus;

namespace {

const nccl_options soon{.deadline = 400ms};

// Waits until the device is done with what the channel has been given, or the group has failed.
template <class Comm>
void settled(Comm& comm, nccl_channel& channel, const program& p, const buffer_view& buffer) {
  cursor at{.place = channel.post(p, {.buffer = buffer, .weight = 1})};
  run(p, channel, at, comm.limit());
  channel.total_weight(at.place);
}

// `body` fails on every rank; what it says there.
template <class F>
std::vector<std::string> texts_of(int size, F&& body, nccl_options options = soon, const standin::nccl::policy& policy = {}) {
  std::vector<std::string> texts(static_cast<std::size_t>(size));
  CHECK_THROWS(on_gpus(
      size,
      [&](auto& comm) {
        try {
          body(comm);
        } catch (const std::exception& e) {
          texts[static_cast<std::size_t>(comm.rank())] = e.what();
          throw;
        }
      },
      options, 1, policy));
  return texts;
}

void expect(const std::string& text, std::initializer_list<std::string> parts) {
  for (const std::string& part : parts) CHECK_MESSAGE(text.find(part) != std::string::npos, "\"", part, "\" is not in: ", text);
}

}  // namespace

TEST_CASE("each rank has a thread, a device and a communicator of its own") {
  std::atomic<int> sum{0};
  on_gpus(3, [&](nccl_communicator& comm) {
    CHECK(comm.size() == 3);
    CHECK(comm.device() == comm.rank());
    CHECK(current_device() == comm.rank());
    sum += comm.all_reduce(1 << comm.rank());
    CHECK(comm.compute_stream() == nullptr);
  });
  CHECK(sum == 21);
  CHECK_THROWS_WITH_AS(nccl_group(std::vector<int>{}), "gradsync: an nccl_group needs at least one GPU", usage_error);
  CHECK_THROWS_AS(nccl_group({0}, {.deadline = 0s}), usage_error);
}

TEST_CASE("minimum and maximum of thread blocks are given together") {
  for (const auto& [min, max] : {std::pair(4, 0), std::pair(0, 4), std::pair(8, 4)})
    CHECK_THROWS_WITH_AS(nccl_group({0, 1}, {.min_ctas = min, .max_ctas = max}),
                         doctest::Contains("give both, the lower one first, or neither"), usage_error);
  on_gpus(2, [](auto& comm) { CHECK(comm.all_reduce(1) == 2); }, {.min_ctas = 4, .max_ctas = 8});
}

TEST_CASE("two ranks on one GPU are refused before NCCL sees them, by name") {
  standin::reset();
  standin::nccl::set({});
  CHECK_THROWS_WITH_AS(nccl_group({0, 1, 0}).run([](auto&) {}), doctest::Contains("ranks 0 and 2 have the same GPU"), usage_error);
  CHECK(standin::nccl::alive() == 0);
}

TEST_CASE("parts of a group are communicators, which number and name their ranks") {
  on_gpus(5, [](auto& comm) {
    auto part = comm.split(comm.rank() < 3 ? -7 : 40, -comm.rank());
    CHECK(part.size() == (comm.rank() < 3 ? 3 : 2));
    CHECK(part.rank() == (comm.rank() < 3 ? 2 - comm.rank() : 4 - comm.rank()));
    CHECK(part.all_reduce(comm.rank()) == (comm.rank() < 3 ? 3 : 7));
    CHECK(part.place_of(part.rank()).whole == (part.rank() == comm.rank() ? -1 : comm.rank()));
    auto again = part.split(part.rank() % 2);
    CHECK(again.all_reduce(1) == again.size());
    CHECK(comm.all_reduce(1) == 5);
  });
}

TEST_CASE("memory is made for NCCL and registered, and what was obtained can be seen") {
  const auto described = [](nccl_registration how, const standin::nccl::policy& policy) {
    std::string text;
    on_gpus(
        2,
        [&](auto& comm) {
          const aligned_bytes memory = comm.allocate(100'000);
          CHECK(memory.size() == 100'000);
          CHECK(reinterpret_cast<std::uintptr_t>(memory.data()) % 256 == 0);
          std::vector<float> zeros(25'000, 1);
          check(cudaMemcpy(zeros.data(), memory.data(), memory.size(), cudaMemcpyDeviceToHost), "cudaMemcpy");
          CHECK(zeros == std::vector<float>(25'000));
          if (comm.rank() == 0) text = comm.describe();
        },
        {.registration = how}, 1, policy);
    return text;
  };
  CHECK(described(nccl_registration::automatic, {}) == "rank 0 of 2 on device 0, NCCL " + std::to_string(NCCL_MAJOR) + "." +
                                                           std::to_string(NCCL_MINOR) + "." + std::to_string(NCCL_PATCH) +
                                                           "\n100000 bytes from ncclMemAlloc, registered locally\n");
  expect(described(nccl_registration::window, {}), {"from ncclMemAlloc, registered as a window"});
  expect(described(nccl_registration::window, {.windows_work = false}), {"from ncclMemAlloc, registered locally"});
  expect(described(nccl_registration::window, {.windows_work = false, .local_works = false}), {"not registered"});
  expect(described(nccl_registration::automatic, {.memory_works = false}), {"from cudaMalloc, registered locally"});
  expect(described(nccl_registration::none, {}), {"from ncclMemAlloc, not registered"});
}

TEST_CASE("memory may outlive its communicator") {
  on_gpus(2, [](auto& comm) {
    aligned_bytes memory;
    {
      auto part = comm.split(0);
      memory = part.allocate(512);
    }
    check(cudaMemset(memory.data(), 1, memory.size()), "cudaMemset");
    check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  });
}

TEST_CASE("a channel whose communicator has gone says so") {
  on_gpus(2, [](auto& comm) {
    auto part = std::make_unique<nccl_communicator>(comm.split(0));
    auto channel = part->open(1);
    part.reset();
    const device_vector<float> buffer(std::vector<float>(8));
    CHECK_THROWS_WITH_AS(channel.post(compile(native{}, comm.rank(), 2), {.buffer = buffer.view()}),
                         doctest::Contains("its communicator has been closed"), usage_error);
  });
}

TEST_CASE("a communicator can be closed early, and then refuses to be used") {
  on_gpus(2, [](auto& comm) {
    auto part = comm.split(0);
    part.close();
    part.close();
    CHECK_THROWS_WITH_AS(part.barrier(), doctest::Contains("its communicator has been closed"), usage_error);
  });
}

TEST_CASE("an exception on one rank ends the waits of all others, which quote it") {
  for (const bool in_bucket : {false, true}) {
    std::vector<std::string> texts(3);
    CHECK_THROWS_AS(on_gpus(3,
                            [&](auto& comm) {
                              if (comm.rank() == 1) {
                                comm.barrier();
                                throw std::domain_error("the batch is not a number");
                              }
                              try {
                                comm.barrier();  // of which a rank may learn late, and then of the failure first
                                auto channel = comm.open(1);
                                const device_vector<float> buffer(std::vector<float>(100));
                                in_bucket ? settled(comm, channel, compile(ring{}, comm.rank(), 3), buffer.view()) : comm.barrier();
                                channel.leave();
                              } catch (const transport_error& e) {
                                texts[static_cast<std::size_t>(comm.rank())] = e.what();
                                throw;
                              }
                            },
                            {.deadline = 60s}),
                    std::domain_error);
    for (const int rank : {0, 2})
      expect(texts[static_cast<std::size_t>(rank)], {"rank " + std::to_string(rank) + "]", "rank 1 failed: the batch is not a number"});
  }
}

TEST_CASE("a rank that returns early is named") {
  std::vector<std::string> texts(2);
  CHECK_THROWS_AS(on_gpus(2,
                          [&](auto& comm) {
                            comm.barrier();
                            if (comm.rank() == 1) return;
                            try {
                              comm.barrier();
                            } catch (const transport_error& e) {
                              texts[0] = e.what();
                              throw;
                            }
                          },
                          {.deadline = 60s}),
                  transport_error);
  expect(texts[0], {"gradsync[rank 0]: rank 1 has returned from its function and takes no part any more"});
}

TEST_CASE("a late rank ends in a timeout that names it and the collective, on every rank") {
  std::atomic<bool> released{false};
  std::vector<std::string> texts(3);
  CHECK_THROWS_AS(on_gpus(
                      3,
                      [&](auto& comm) {
                        auto channel = comm.open(1);
                        const device_vector<float> buffer(std::vector<float>(100));
                        const program p = compile(native{}, comm.rank(), 3);
                        try {
                          settled(comm, channel, p, buffer.view());
                          while (comm.rank() == 2 && !released && !comm.failed()) std::this_thread::sleep_for(1ms);
                          settled(comm, channel, p, buffer.view());
                        } catch (const error& e) {
                          texts[static_cast<std::size_t>(comm.rank())] = e.what();
                          throw;
                        }
                      },
                      soon),
                  timeout_error);
  const std::string cause = "rank 2 did not come before the deadline of 400 ms (ncclAllReduce, collective 1 of this communicator)";
  for (const std::string& text : texts) expect(text, {cause});
}

TEST_CASE("ranks of one process that ask for different things find out at once") {
  const auto mismatch = [](auto mine) {
    return texts_of(3,
                    [&](auto& comm) {
                      auto channel = comm.open(1);
                      const device_vector<float> buffer(std::vector<float>(static_cast<std::size_t>(mine(comm.rank()))));
                      settled(comm, channel, compile(native{}, comm.rank(), 3), buffer.view());
                    },
                    {.deadline = 60s});
  };
  for (const std::string& text : mismatch([](int rank) { return rank == 2 ? 7 : 9; }))
    expect(text, {"ncclAllReduce of 7 elements of float32", "ncclAllReduce of 9 elements of float32", "make the same calls"});
  const auto order = texts_of(2,
                              [](auto& comm) {
                                auto channel = comm.open(1);
                                const device_vector<float> buffer(std::vector<float>(100));
                                if (comm.rank() == 0) comm.barrier();
                                settled(comm, channel, compile(native{}, comm.rank(), 2), buffer.view());
                                if (comm.rank() == 1) comm.barrier();
                              },
                              {.deadline = 60s});
  for (const std::string& text : order) expect(text, {"barrier of 1 elements of uint8", "ncclAllReduce of 100 elements"});
}

TEST_CASE("between processes a difference in host values is found by the ranks, and in buckets by the deadline") {
  // Each rank has a world of its own, as processes have.
  const auto apart = [](auto body) {
    standin::reset();
    standin::seed(3);
    standin::nccl::set({});
    std::vector<std::string> texts(2);
    thread_group(2).run([&](auto& host) {
      check(cudaSetDevice(host.rank()), "cudaSetDevice");
      broadcast_meeting meet(host.rank(), 2, [&](std::span<std::byte> bytes, int root) {
        host.broadcast(std::span(reinterpret_cast<std::uint8_t*>(bytes.data()), bytes.size()), root);
      });
      nccl_communicator comm(meet, host.rank(), 2, soon);
      CHECK(comm.all_reduce(1) == 2);
      try {
        body(comm);
      } catch (const error& e) {
        texts[static_cast<std::size_t>(host.rank())] = e.what();
      }
    });
    CHECK(standin::nccl::alive() == 0);
    return texts;
  };
  for (const std::string& text : apart([](auto& comm) {
         std::vector<int> values(comm.rank() == 0 ? 3 : 4);
         comm.all_reduce(std::span<int>(values));
       }))
    expect(text, {"calls all_reduce(sum) of", "3 elements of int32", "4 elements of int32"});
  for (const std::string& text : apart([](auto& comm) {
         auto channel = comm.open(1);
         const device_vector<float> buffer(std::vector<float>(comm.rank() == 0 ? 30 : 40));
         settled(comm, channel, compile(native{}, comm.rank(), 2), buffer.view());
       }))
    expect(text, {"not all ranks came before the deadline of 400 ms (ncclAllReduce, collective"});
}

TEST_CASE("an asynchronous error of NCCL fails all ranks with its text") {
  const auto texts = texts_of(3,
                              [](auto& comm) {
                                auto channel = comm.open(1);
                                const device_vector<float> buffer(std::vector<float>(100));
                                for (int i = 0; i < 5; ++i) settled(comm, channel, compile(native{}, comm.rank(), 3), buffer.view());
                              },
                              {.deadline = 60s}, {.failing_rank = 1, .failing_operation = 3});
  expect(texts[1], {"gradsync[rank 1]", "NCCL reports an asynchronous error: remote process exited"});
  for (const int rank : {0, 2}) expect(texts[static_cast<std::size_t>(rank)], {"rank 1 failed", "NCCL reports an asynchronous error"});
}

TEST_CASE("after a failure the ranks that live on can shrink a revoked communicator, not an aborted one") {
  for (const nccl_ending ending : {nccl_ending::revoke, nccl_ending::abort}) {
    std::atomic<int> shrunk{0};
    CHECK_THROWS(on_gpus(3,
                         [&](auto& comm) {
                           if (comm.rank() == 1) {
                             comm.barrier();
                             throw std::runtime_error("its device is lost");
                           }
                           try {
                             comm.barrier();
                             comm.barrier();
                           } catch (const transport_error&) {
                             const int lost[] = {1};
                             std::this_thread::sleep_for(30ms);  // the watchdog is about to end it
                             if (ending == nccl_ending::abort) {
                               CHECK_THROWS_WITH_AS(comm.shrink(lost), doctest::Contains("the communicator has been aborted"), usage_error);
                             } else {
                               auto rest = comm.shrink(lost);
                               CHECK(rest.size() == 2);
                               CHECK(rest.rank() == comm.rank() / 2);
                               CHECK(rest.all_reduce(1) == 2);
                               ++shrunk;
                             }
                           }
                         },
                         {.deadline = 60s, .on_failure = ending}, 1, {.ending = 100ms}));
    CHECK(shrunk == (ending == nccl_ending::revoke ? 2 : 0));
  }
}

TEST_CASE("a healthy communicator can be shrunk") {
  std::atomic<int> done{0};
  on_gpus(4, [&](auto& comm) {
    comm.barrier();
    const int excluded[] = {3, 0};
    if (comm.rank() == 0)
      CHECK_THROWS_WITH_AS(comm.shrink(excluded), doctest::Contains("this rank is one of those to be excluded"), usage_error);
    if (comm.rank() == 0 || comm.rank() == 3) {
      while (done < 2) std::this_thread::sleep_for(1ms);
      return;
    }
    auto rest = comm.shrink(excluded);
    CHECK(rest.all_reduce(comm.rank()) == 3);
    ++done;
  });
}
