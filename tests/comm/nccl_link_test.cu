// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0
#include "gradsync/comm/nccl_link.hpp"

#include <doctest/doctest.h>

#include "gradsync/comm/nccl_memory.hpp"
#include "tests/comm/nccl_ranks.hpp"

using namespace gradsync;
using namespace gradsync::detail;
using tests::alone;

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
