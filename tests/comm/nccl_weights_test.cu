// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0
#include "gradsync/comm/nccl_weights.hpp"

#include <doctest/doctest.h>

#include "tests/cuda_standin/standin.hpp"
#include "tests/laws/scalar.hpp"

using namespace gradsync;

TEST_CASE("weights are added in the canonical tree, for any number of ranks") {
  standin::reset();
  for (const int ranks : {1, 2, 3, 5, 8, 63, 64, 65, 130, 300}) {
    detail::nccl_weights weights(0, ranks, 2);
    cuda_stream stream(0);
    std::vector<double> all;
    for (int r = 0; r < ranks; ++r) all.push_back(0.1 + 1.0 / (r + 3));
    weights.put(stream, 0, all[0]);
    // What ncclAllGather would have brought lies before the sums of blocks, and those before the sum.
    const std::size_t blocks = (all.size() + 63) / 64;
    double* const gathered = const_cast<double*>(weights.total(0)) - blocks - all.size();
    check(cudaMemcpyAsync(gathered, all.data(), all.size() * sizeof(double), cudaMemcpyHostToDevice, stream.native()), "cudaMemcpyAsync");
    weights.add(stream);
    check(cudaStreamSynchronize(stream.native()), "cudaStreamSynchronize");
    const double expected = laws::tree_of<double>([&](int r) { return all[static_cast<std::size_t>(r)]; }, laws::plus<double>, 0, ranks);
    CHECK_MESSAGE(weights.on_host(0) == expected, ranks, " ranks");
    double own = 0;
    check(cudaMemcpy(&own, gathered - 1, sizeof own, cudaMemcpyDeviceToHost), "cudaMemcpy");
    CHECK(own == all[0]);
    weights.repeat(1);
    CHECK(weights.total(1) == weights.total(0));
    CHECK(weights.on_host(1) == expected);
  }
}
