// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/house/text.hpp"

#include <doctest/doctest.h>

using house::difference;
using house::fits;

TEST_CASE("a stored line without a wildcard fits only itself") {
  CHECK(fits("loss 1.5", "loss 1.5"));
  CHECK(fits("", ""));
  CHECK_FALSE(fits("loss 1.5", "loss 1.50"));
  CHECK_FALSE(fits("loss 1.5", ""));
  CHECK_FALSE(fits("", " "));
}

TEST_CASE("a wildcard stands for any text up to what follows it") {
  CHECK(fits("took … ms", "took 12.7 ms"));
  CHECK(fits("…", "anything"));
  CHECK(fits("took …", "took "));
  CHECK(fits("… ms, … MB/s, 3 buckets", "1 ms, 20 MB/s, 3 buckets"));
  CHECK(fits("a…a", "aa"));
  CHECK_FALSE(fits("a…a", "a"));
  CHECK_FALSE(fits("took … ms", "took 12.7 s"));
  CHECK_FALSE(fits("took … ms", "it took 12.7 ms"));
  CHECK_FALSE(fits("… ms, … MB/s, 3 buckets", "1 ms, 20 MB/s, 2 buckets"));
  CHECK_FALSE(fits("… ms, … MB/s", "20 MB/s, 1 ms"));
}

TEST_CASE("the first line that differs is named, also where one text ends early") {
  CHECK(difference("a\nb\n", "a\nb\n").empty());
  CHECK(difference("a\nb", "a\nb\n").empty());
  CHECK(difference("a\nb\n", "a\nc\n").find("line 2\n  stored:  b\n  printed: c") == 0);
  CHECK(difference("a\nb\n", "a\n").find("line 2\n  stored:  b\n  printed: (the end)") == 0);
  CHECK(difference("a\n", "a\n\n").find("line 2\n  stored:  (the end)") == 0);
}

TEST_CASE("columns count characters, not bytes") { CHECK(house::columns_of("α-β-γ …") == 7); }
