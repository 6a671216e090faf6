// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0
#include "gradsync/collective/violation.hpp"

#include <doctest/doctest.h>

#include <set>
#include <string>

using namespace gradsync;
using kind = violation::kind;

TEST_CASE("every kind of violation has words of its own, none has none") {
  CHECK(describe(violation{}).empty());
  std::set<std::string> seen;
  for (int i = 1; i <= static_cast<int>(kind::weaker_than_claimed); ++i) {
    const std::string words = describe(violation{static_cast<kind>(i), 11, 12, 13, 14, "the reason of a strategy of one's own"});
    CHECK(words.size() > 20);
    CHECK(seen.insert(words).second);
  }
  CHECK(seen.size() == static_cast<std::size_t>(kind::weaker_than_claimed));
}

TEST_CASE("the words name round, rank, peer and chunk") {
  CHECK(describe(violation{kind::unmatched_receive, 3, 2, 0, 1}) ==
        "in round 3 rank 2 waits for chunks from 1 on from rank 0, which does not send them in that round");
  CHECK(describe(violation{kind::incomplete, -1, 2, -1, 5}) ==
        "after the last round rank 2 does not hold each contribution to chunk 5 exactly once");
  CHECK(describe(violation{kind::bad_chunks, -1, -1, -1, -7}) == "chunks() says -7; it must be 1 to 65536");
}

TEST_CASE("a strategy's reason for refusing a number of ranks is told as it is") {
  const violation refused{.what = kind::refused_size, .reason = "needs a power of two"};
  CHECK(describe(refused) == "needs a power of two");
  CHECK(refused != violation{.what = kind::refused_size, .reason = "needs an even number"});
}
