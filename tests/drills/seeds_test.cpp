// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

// Whatever else a seed comes upon: other numbers of ranks, other lengths, the first update and later ones; and deadlines on the real clock.
#include <doctest/doctest.h>

#include <cstdlib>

#include "tests/drills/drill.hpp"

using namespace drills;

namespace {

drill drawn(std::uint64_t seed) {
  std::uint64_t state = seed;
  const auto below = [&](std::uint64_t end) { return (state = laws::mixed(state)) % end; };
  drill d{.seed = seed};
  d.ranks = 2 + static_cast<int>(below(6));
  d.strategy = below(strategy_count());
  d.what = all_troubles[below(5)];
  d.victim = static_cast<int>(below(static_cast<std::uint64_t>(d.ranks)));
  d.update = static_cast<int>(below(updates - 1));  // in the last one a rank may be struck when nobody needs it any more
  d.counts.assign(1 + below(4), 0);
  for (std::size_t& count : d.counts) count = below(10) == 0 ? below(30'000) : 1 + below(100);
  d.counts[0] += 1;
  d.bucket = below(d.counts.size());
  d.in_user_code = d.what != trouble::drop && below(3) == 0;
  d.round = fault_plan::posting + static_cast<int>(below(static_cast<std::uint64_t>(rounds_of(d.strategy, d.ranks)) + 2));
  d.progress = below(2) == 0 ? progress::at_marks : progress::thread;
  d.layout = below(3) == 0 ? layout::packed : layout::in_place;
  return d;
}

}  // namespace

TEST_CASE("drills that seeds have drawn") {
  for (std::uint64_t seed = 1'000'000; seed < 1'000'500; ++seed)
    if (chosen(seed)) perform(drawn(seed));
  if (const char* only = std::getenv("GRADSYNC_DRILL_SEED"); only != nullptr)  // beyond those too
    if (const std::uint64_t seed = std::strtoull(only, nullptr, 10); seed >= 1'000'500) perform(drawn(seed));
}

TEST_CASE("deadlines on the real clock are kept as well") {
  std::uint64_t seed = 70'000;
  for (std::size_t strategy = 0; strategy < strategy_count(); ++strategy)
    for (int victim = 0; victim < 3; ++victim)
      if (const std::uint64_t random = laws::mixed(++seed); chosen(seed))
        perform({.seed = seed,
                 .ranks = 3,
                 .strategy = strategy,
                 .what = trouble::freeze,
                 .victim = victim,
                 .bucket = random % 3,
                 .in_user_code = random / 6 % 2 == 0,
                 .progress = random / 3 % 2 == 0 ? progress::at_marks : progress::thread,
                 .real_clock = true});
}
