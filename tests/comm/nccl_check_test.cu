// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0
#include "gradsync/comm/nccl_check.hpp"

#include <doctest/doctest.h>

#include "tests/cuda_standin/nccl_standin.hpp"

using namespace gradsync;

TEST_CASE("a call that fails throws with its name, its place and NCCL's sentence") {
  check(ncclSuccess, "ncclAllReduce");
  try {
    check(ncclSystemError, "ncclAllReduce");
    FAIL("no error");
  } catch (const nccl_error& e) {
    CHECK(e.code == ncclSystemError);
    CHECK(e.message().find("ncclAllReduce at nccl_check_test.cu:14: unhandled system error") == 0);
  }
  CHECK_THROWS_AS(check(ncclInvalidArgument, "x"), nccl_usage_error);
  CHECK_THROWS_AS(check(ncclInvalidUsage, "x"), nccl_usage_error);
  CHECK_THROWS_AS(check(ncclRemoteError, "x"), transport_error);
}

TEST_CASE("types that NCCL cannot add are refused by name") {
  CHECK(nccl_type(dtype::float32) == ncclFloat32);
  CHECK(nccl_type(dtype::float64) == ncclFloat64);
  CHECK(nccl_type(dtype::uint64) == ncclUint64);
  CHECK_THROWS_WITH_AS(nccl_type(dtype::int16), "gradsync: NCCL cannot add int16", usage_error);
}

TEST_CASE("a batch that an exception leaves is closed") {
  standin::nccl::set({});
  try {
    detail::nccl_batch together;
    throw 1;
  } catch (int) {
  }
  standin::nccl::end_of_thread();
  CHECK(standin::nccl::faults().empty());
}

TEST_CASE("what NCCL makes of a communicator that was ended meanwhile is asked about before it is thrown; a caller's own mistake is not") {
  const auto fails = [](ncclResult_t with) { return [with] { check(with, "ncclGroupEnd"); }; };
  const auto known = [] { throw transport_error("rank 1 failed: disk full"); };
  for (const ncclResult_t with : {ncclInvalidUsage, ncclRemoteError}) {
    CHECK_THROWS_WITH_AS(detail::calling_nccl(fails(with), known), doctest::Contains("rank 1 failed: disk full"), transport_error);
    CHECK_THROWS_WITH(detail::calling_nccl(fails(with), [] {}), doctest::Contains("ncclGroupEnd at nccl_check_test.cu"));
  }
  CHECK_THROWS_AS(detail::calling_nccl([] { throw usage_error("too long"); }, known), usage_error);
  CHECK(detail::calling_nccl([] { return 7; }, known) == 7);
}
