// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0
#include "gradsync/comm/roll_call.hpp"

#include <doctest/doctest.h>

#include "tests/comm/message_queues.hpp"

using namespace gradsync;
using detail::roll_call;

namespace {

// Every rank answers with the entry that `entry_of(rank)` makes; then `look(roll, rank)`.
template <class Entry, class Look>
void call(int size, Entry&& entry_of, Look&& look) {
  const auto office = std::make_shared<laws::post_office>();
  const auto outcome = std::make_shared<detail::failure>(size, std::chrono::steady_clock::now);
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < size; ++rank)
    ranks.emplace_back([&, rank] {
      laws::queue_endpoint own(office, outcome, {0, 0}, rank, size);
      roll_call roll(size);
      roll.begin(own, entry_of(rank));
      look(roll, own);
    });
  for (std::thread& t : ranks) t.join();
}

}  // namespace

static_assert(sizeof(roll_call::entry) == 64);  // as the page says

TEST_CASE("everyone hears everyone's answer, and adds the weights in the canonical tree") {
  const double weights[] = {0.1, 0.2, 0.3, 1e17, -1e17};
  const auto entry = [&](int rank) {
    roll_call::entry mine{.count = 7, .weight = weights[rank]};
    mine.values[0] = static_cast<std::byte>(rank);
    return mine;
  };
  call(5, entry, [&](roll_call& roll, laws::queue_endpoint& own) {
    CHECK(roll.answered(own, "ring", deadline::never()));
    CHECK(roll.total_weight() == ((weights[0] + weights[1]) + (weights[2] + weights[3])) + weights[4]);
    for (int rank = 0; rank < 5; ++rank) CHECK(roll.of(rank).values[0] == static_cast<std::byte>(rank));
  });
}

TEST_CASE("who asks for something else, or runs another program, is named") {
  const auto other_count = [](int rank) { return roll_call::entry{.count = rank == 1 ? 8u : 7u}; };
  call(2, other_count, [](roll_call& roll, laws::queue_endpoint& own) {
    CHECK_THROWS_WITH_AS(roll.answered(own, "ring", deadline::never()), doctest::Contains("8 elements of float32"), mismatch_error);
  });
  const auto other_program = [](int rank) { return roll_call::entry{.count = 7, .program = rank == 1 ? 8u : 7u}; };
  call(2, other_program, [](roll_call& roll, laws::queue_endpoint& own) {
    const std::string peer = "rank " + std::to_string(1 - own.rank());
    CHECK_THROWS_WITH_AS(roll.answered(own, "ring", deadline::never()),
                         doctest::Contains((peer + " does not run ring; give every rank the same strategy").c_str()), mismatch_error);
  });
}
