// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0
#include "gradsync/comm/call.hpp"

#include <doctest/doctest.h>

using namespace gradsync;
using namespace gradsync::detail;

namespace {

const place here{.rank = 1, .step = -1, .bucket = -1, .parameter = {}};

}  // namespace

TEST_CASE("calls have names, and no two the same number") {
  CHECK(name_of_call(0) == "for the mean of gradients");
  CHECK(name_of_call(call_of(reduce_op::sum)) == "all_reduce(sum)");
  CHECK(name_of_call(call_of(reduce_op::min)) == "all_reduce(min)");
  CHECK(name_of_call(call_of(reduce_op::max)) == "all_reduce(max)");
  CHECK(name_of_call(call_of_barrier) == "barrier");
  CHECK(name_of_call(call_of_split) == "split");
  CHECK(name_of_call(call_of_reduce_scatter) == "reduce_scatter");
  CHECK(name_of_call(call_of_all_gather) == "all_gather");
  CHECK(name_of_call(call_of_broadcast(0)) == "broadcast from rank 0");
  CHECK(name_of_call(call_of_broadcast(12)) == "broadcast from rank 12");
}

TEST_CASE("ranks that ask for the same go on; others are told what each of them asks") {
  const request ours{call_of(reduce_op::sum), 3, dtype::int32};
  CHECK_NOTHROW(check_alike(ours, ours, "rank 2", here));
  CHECK_THROWS_WITH_AS(
      check_alike(ours, {call_of_barrier, 3, dtype::int32}, "rank 2", here),
      "gradsync[rank 1]: rank 2 calls barrier, this rank all_reduce(sum); make the same calls in the same order on every rank",
      mismatch_error);
  CHECK_THROWS_WITH_AS(check_alike(ours, {ours.call, 4, dtype::int32}, "rank 2", here),
                       "gradsync[rank 1]: rank 2 has 4 elements of int32, this rank has 3 elements of int32; make the same calls with the "
                       "same lengths on every rank",
                       mismatch_error);
  CHECK_THROWS_WITH_AS(check_alike(ours, {ours.call, 3, dtype::float32}, "rank 2", here), doctest::Contains("3 elements of float32"),
                       mismatch_error);
  CHECK_THROWS_WITH_AS(throw_other_strategy("rank 2", "ring", here),
                       "gradsync[rank 1]: rank 2 does not run ring; give every rank the same strategy", mismatch_error);
}
