// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0
#include "gradsync/comm/nccl_link.hpp"

#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <utility>

#include "gradsync/comm/nccl_memory.hpp"
#include "tests/comm/nccl_ranks.hpp"
#include "tests/comm/said_on_stderr.hpp"

using namespace gradsync;
using namespace gradsync::detail;
using tests::alone;
using tests::captured;
using tests::said_on_stderr;

TEST_CASE("the config is the same for all communicators") {
  const ncclConfig_t plain = nccl_config({}), bounded = nccl_config({.min_ctas = 2, .max_ctas = 8});
  CHECK(plain.blocking == 1);
  CHECK(plain.minCTAs == NCCL_CONFIG_UNDEF_INT);
  CHECK(plain.maxCTAs == NCCL_CONFIG_UNDEF_INT);
  CHECK(bounded.minCTAs == 2);
  CHECK(bounded.maxCTAs == 8);
  CHECK_THROWS_WITH_AS(nccl_config({.min_ctas = 2}), "gradsync: min_ctas is 2 and max_ctas 0; give both, the lower one first, or neither",
                       usage_error);
}

TEST_CASE("a communicator ends in order, once, and refuses to be used afterwards") {
  const auto link = alone();
  const nccl_slab slab = make_slab(link, 4096);
  CHECK(describe(slab.about) == "4096 bytes from ncclMemAlloc, registered locally");
  CHECK(make_slab(link, 0).data == nullptr);
  link->close();
  link->close();
  CHECK(standin::nccl::alive() == 0);
  CHECK(standin::nccl::faults().empty());  // deregistered, finalized, destroyed
  CHECK_THROWS_WITH_AS(link->native(), "gradsync[rank 0]: its communicator has been closed", usage_error);
}

TEST_CASE("a failure aborts, and what was registered is not touched any more") {
  const auto link = alone();
  const nccl_slab slab = make_slab(link, 4096);
  link->fail(std::make_exception_ptr(transport_error("disk full")));
  CHECK(link->watchdog()->quiesce());
  CHECK_THROWS_AS(link->native(), transport_error);
  CHECK(link->remains() == nullptr);
  link->close();
  CHECK(standin::nccl::alive() == 0);
  CHECK(standin::nccl::faults().empty());
}

TEST_CASE("what is given back while a graph is alive stays, registered as it is, until one comes when none is") {
  const auto link = alone();
  cuda_stream user(0);
  const cudaGraphExec_t graph = captured(user.native(), [&](cudaStream_t s) { link->captured_on(s), link->captured_on(s); });
  CHECK(link->graphs().alive() == 1);
  std::byte* const slab = make_slab(link, 4096).data.get();
  const auto give_back = [&] {
    std::shared_ptr<std::byte> memory = device_memory(256, 0);
    const std::weak_ptr<std::byte> seen = memory;
    link->give_back(std::move(memory));
    return seen;
  };
  const auto first = give_back();
  CHECK_FALSE(first.expired());
  CHECK(cudaMemset(slab, 1, 4096) == cudaSuccess);
  CHECK(cudaDeviceSynchronize() == cudaSuccess);
  CHECK_THROWS_WITH_AS(link->close(), doctest::Contains("destroy graphs, and what was instantiated from them, before the communicator"),
                       usage_error);
  check(cudaGraphExecDestroy(graph), "cudaGraphExecDestroy");
  CHECK(link->graphs().gone());
  const auto second = give_back();
  CHECK(first.expired());
  CHECK(second.expired());
  link->close();
  CHECK(standin::nccl::alive() == 0);
  CHECK(standin::nccl::faults().empty());
}

TEST_CASE("a communicator that a graph outlives says so, and is left behind with the memory that the graph may use") {
  auto link = alone();
  const ncclComm_t comm = link->native();
  cuda_stream user(0);
  const cudaGraphExec_t graph = captured(user.native(), [&](cudaStream_t s) { link->captured_on(s); });
  std::byte* data = nullptr;
  const std::string said = said_on_stderr([&] {
    nccl_slab slab = make_slab(link, 4096);
    data = slab.data.get();
    static_cast<void>(end_of_link(std::move(link)));
  });
  CHECK(said ==
        "gradsync[rank 0]: a CUDA graph that has captured this communicator's collectives is alive, and may not be launched without it; "
        "destroy graphs, and what was instantiated from them, before the communicator; it is left behind\n");
  CHECK(standin::nccl::alive() == 1);
  CHECK(cudaMemset(data, 1, 4096) == cudaSuccess);
  CHECK(cudaDeviceSynchronize() == cudaSuccess);
  check(cudaGraphExecDestroy(graph), "cudaGraphExecDestroy");
  CHECK(ncclCommAbort(comm) == ncclSuccess);  // for the tests that follow
  CHECK(standin::nccl::faults().empty());
  standin::reset();
}
