// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0
#include "gradsync/comm/nccl_memory.hpp"

#include <doctest/doctest.h>

#include "tests/comm/nccl_ranks.hpp"

using namespace gradsync;
using namespace gradsync::detail;
using tests::alone;

TEST_CASE("a slab says what was obtained") {
  CHECK(describe(nccl_slab_description{.bytes = 7}) == "7 bytes from cudaMalloc, not registered");
  CHECK(describe(nccl_slab_description{.bytes = 7, .from_nccl = true, .registration = nccl_registration::window}) ==
        "7 bytes from ncclMemAlloc, registered as a window");
}

TEST_CASE("a slab is zeroed, and forgotten by NCCL before it is freed") {
  for (const nccl_registration how : {nccl_registration::automatic, nccl_registration::window, nccl_registration::none}) {
    const auto link = alone({.registration = how});
    {
      const nccl_slab slab = make_slab(link, 10'000);
      CHECK(slab.about.bytes == 10'000);
      std::vector<int> zeros(2500, 1);
      check(cudaMemcpy(zeros.data(), slab.data.get(), 10'000, cudaMemcpyDeviceToHost), "cudaMemcpy");
      CHECK(zeros == std::vector<int>(2500));
    }
    link->close();
    CHECK(standin::nccl::faults().empty());
    CHECK(standin::nccl::alive() == 0);
  }
}
