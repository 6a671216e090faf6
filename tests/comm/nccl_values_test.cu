// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0
#include "gradsync/comm/nccl_values.hpp"

#include <doctest/doctest.h>

#include "tests/comm/nccl_ranks.hpp"

using namespace gradsync;
using namespace gradsync::detail;
using tests::alone;

TEST_CASE("values of one rank are what they were") {
  const auto link = alone();
  {
    nccl_values values(link, 1);
    std::vector<double> many(50'000, 1.5);
    values.combine(std::span(many), reduce_op::sum, {"all_reduce(sum)", many.size(), dtype::float64});
    CHECK(many == std::vector<double>(50'000, 1.5));
    values.broadcast(std::as_writable_bytes(std::span(many)), 0, {"broadcast", many.size(), dtype::float64});
    CHECK(many == std::vector<double>(50'000, 1.5));
  }
  link->close();
  CHECK(standin::nccl::faults().empty());
}
