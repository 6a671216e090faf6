// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0
#include "gradsync/cuda/stream.hpp"

#include <doctest/doctest.h>

#include "gradsync/core/host_stream.hpp"
#include "tests/cuda/staged.hpp"
#include "tests/laws/stream_laws.hpp"

using namespace gradsync;

TEST_CASE_TEMPLATE("a CUDA stream obeys the laws of a stream, to the bit", T, float, double) {
  cuda_stream s(0, stream_priority::high);
  tests::staged on_device(s);
  laws::stream_laws<T>(on_device);
}
