// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

// A drill: a small training in which one rank is late, stops, falls silent, throws or returns at a point that the drill's seed says. What
// must become of it: an error on every live rank, with the root cause in it; the values of the model as they were; a synchronizer that
// refuses to go on; no memory touched after its owner has gone (the address sanitizer looks); and the next group works. A delay below the
// deadline must change nothing at all.
//
//     bazel test //tests:drills_rounds_test --test_env=GRADSYNC_DRILL_SEED=20123      # only this one, again
//
// Deadlines are on a clock that stands still until all live ranks wait for one that does not come.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "gradsync/comm/faulty.hpp"
#include "gradsync/sync/options.hpp"
#include "tests/laws/scattered.hpp"

namespace drills {

using namespace gradsync;

// The strategies that are drilled, by number, and the rounds in which a fault may strike.
std::size_t strategy_count();
int rounds_of(std::size_t strategy, int ranks);

enum class trouble { none, delay, freeze, drop, exception, early_return };
inline constexpr trouble all_troubles[] = {trouble::delay, trouble::freeze, trouble::drop, trouble::exception, trouble::early_return};
constexpr const char* name_of(trouble what) {
  constexpr const char* names[] = {"nothing", "delay", "freeze", "drop", "exception", "early return"};
  return names[static_cast<int>(what)];
}

struct drill {
  std::uint64_t seed = 0;
  int ranks = 2;
  std::size_t strategy = 0;
  trouble what = trouble::none;
  int victim = 0;
  int update = 1;             // in which it happens
  std::size_t bucket = 0;     // at this bucket's collective, or before its mark
  int round = 0;              // of the collective
  bool in_user_code = false;  // before the mark, instead of in the transport
  gradsync::progress progress = progress::at_marks;
  gradsync::layout layout = layout::in_place;
  std::vector<std::size_t> counts = {3, 300, 37};  // a bucket each
  bool real_clock = false;

  // Rather than a thread that drives the collectives.
  bool holds_the_caller() const { return in_user_code || (round == fault_plan::posting && what != trouble::drop); }
  bool takes_time() const { return what == trouble::delay || what == trouble::freeze || what == trouble::drop; }

  std::string text() const;
};

inline constexpr int updates = 4;

// Does it, and checks all that the head of this file promises.
void perform(const drill& d);

// Whether this run performs the drill: sanitizers take as much longer, and do a tenth; and one seed can be asked for.
bool chosen(std::uint64_t seed);

}  // namespace drills
