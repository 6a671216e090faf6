// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0
#include "gradsync/collective/hierarchical.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "gradsync/collective/cost.hpp"
#include "gradsync/collective/halving_doubling.hpp"
#include "gradsync/collective/native.hpp"
#include "gradsync/collective/recursive_doubling.hpp"
#include "gradsync/collective/ring.hpp"
#include "gradsync/collective/tree.hpp"
#include "tests/laws/over_threads.hpp"
#include "tests/laws/strategy_laws.hpp"

using namespace gradsync;

namespace {

using rings = hierarchical<ring, ring>;
using halvings = hierarchical<halving_doubling, halving_doubling>;

}  // namespace

// One assertion a size: each has a compiler's full budget of constexpr steps.
static_assert(laws::proved(hierarchical{ring{}, halving_doubling{}, 2}, 4));
static_assert(laws::proved(hierarchical{ring{}, halving_doubling{}, 2}, 6));
static_assert(laws::proved(hierarchical{ring{}, tree{2}, 3}, 9));
static_assert(laws::proved(halvings{.group = 4}, 8));
static_assert(laws::proved(halvings{.group = 3}, 6));
static_assert(sharding<rings> && sharding<hierarchical<halvings, rings>> && !sharding<hierarchical<ring, tree>>);

TEST_CASE("hierarchical obeys the laws of a strategy, whatever its parts and its group") {
  for (int group = 1; group <= 5; ++group) {
    laws::strategy_laws(hierarchical{ring{}, halving_doubling{}, group}, 16);
    laws::strategy_laws(hierarchical{halving_doubling{}, ring{}, group}, 16);
    laws::strategy_laws(hierarchical{halving_doubling{}, tree{.segments = 3}, group}, 16);
    laws::strategy_laws(hierarchical{halving_doubling{}, recursive_doubling{}, group}, 16);
    laws::strategy_laws(rings{.group = group}, 16);
    laws::strategy_laws(halvings{.group = group}, 16);
  }
}

TEST_CASE("hierarchical gives the mean over threads") {
  laws::over_threads(hierarchical{ring{}, halving_doubling{}, 2});
  laws::over_threads(halvings{.group = 4});
  laws::over_threads(hierarchical{ring{}, recursive_doubling{}, 2});
  laws::over_threads(hierarchical{halving_doubling{}, tree{.segments = 2}, 3});
}

TEST_CASE("hierarchical holds exactly its claim up to 72 ranks") {
  for (int size = 1; size <= 72; ++size)
    for (int group = 1; group <= size; ++group) {
      if (size % group != 0) continue;
      INFO("ranks: " << size << ", groups of " << group);
      CHECK(laws::proved(hierarchical{ring{}, halving_doubling{}, group}, size));
      CHECK(laws::proved(hierarchical{halving_doubling{}, tree{}, group}, size));
      CHECK(laws::proved(halvings{.group = group}, size));
      CHECK(laws::proved(hierarchical{halving_doubling{}, recursive_doubling{}, group}, size));
    }
}

TEST_CASE("hierarchical is canonical where the groups are powers of two, however many there are") {
  for (const int group : {1, 2, 4, 8, 16})
    for (const int groups : {1, 2, 3, 5, 6, 7, 9, 11, 13}) {
      CHECK(halvings{.group = group}.claim(group * groups) == level::canonical);
      CHECK(verify(halvings{.group = group}, group * groups).canonical);
      CHECK(verify(hierarchical{halving_doubling{}, tree{}, group}, group * groups).canonical);
    }
  CHECK(halvings{.group = 6}.claim(6) == level::canonical);  // one group: the inner strategy is all
  CHECK(halvings{.group = 6}.claim(12) == level::uniform);
  CHECK(verify(halvings{.group = 6}, 12).reproducibility == level::uniform);
  CHECK(rings{.group = 2}.claim(4) == level::canonical);  // two rings of two
  CHECK(rings{.group = 3}.claim(6) == level::agreed);
}

TEST_CASE("hierarchical composes with itself, on both sides") {
  const hierarchical<ring, hierarchical<ring, halving_doubling>> outward{
      .inner = {}, .outer = {.inner = {}, .outer = {}, .group = 3}, .group = 2};
  CHECK(std::string(outward.name()) == "hierarchical(ring, hierarchical(ring, halving_doubling))");
  laws::strategy_laws(outward, 24);
  const hierarchical inward{halvings{.group = 2}, halving_doubling{}, 4};
  CHECK(std::string(inward.name()) == "hierarchical(hierarchical(halving_doubling, halving_doubling), halving_doubling)");
  laws::strategy_laws(inward, 24);
  for (const int size : {4, 8, 12, 20, 28, 32, 44}) CHECK(verify(inward, size).canonical);
  CHECK(outward.rounds(24) == 2 * 1 + 2 * 2 + 2 * 2);
}

TEST_CASE("hierarchical names its parts, for as long as the program lasts") {
  const char* kept = nullptr;
  {
    const hierarchical strategy{ring{}, tree{}, 4};
    kept = strategy.name();
  }
  CHECK(std::string(kept) == "hierarchical(ring, tree)");
  CHECK(std::strlen(kept) == 24);
}

TEST_CASE("hierarchical refuses what it cannot do, in a sentence") {
  const auto words = [](const auto& strategy, int size) { return describe(verify(strategy, size).first); };
  CHECK(words(rings{.group = 4}, 6) == "hierarchical does only numbers of ranks that its group divides");
  CHECK(words(rings{.group = 8}, 4) == "hierarchical does only numbers of ranks that its group divides");
  CHECK(words(rings{.group = 0}, 4) == "a group of hierarchical has at least one rank");
  CHECK(words(rings{.group = -2}, 4) == "a group of hierarchical has at least one rank");
  const std::string join = "the parts of hierarchical may not join: a join is over all ranks";
  CHECK(words(hierarchical{native{}, ring{}, 2}, 4) == join);
  CHECK(words(hierarchical{ring{}, native{}, 2}, 4) == join);
  CHECK(laws::proved(hierarchical{native{}, ring{}, 4}, 4));  // one group: the join is over all ranks
  CHECK(laws::proved(hierarchical{ring{}, native{}, 1}, 4));
  CHECK(words(hierarchical{ring{}, rings{.group = 2}, 2}, 6) == words(rings{.group = 2}, 3));  // a part's own refusal
  CHECK(words(hierarchical{rings{.group = 2}, ring{}, 3}, 6) == words(rings{.group = 2}, 3));
}

TEST_CASE("hierarchical's header states its rounds, bytes, scratch and cost") {
  const gradsync::link wire{.alpha = 3, .beta = 5, .gamma = 7};
  const double n = 960;
  const auto states = [&](const auto& inner, const auto& outer, int group, int groups) {
    const hierarchical strategy{inner, outer, group};
    const int p = group * groups;
    INFO(strategy.name() << " of " << groups << " groups of " << group);
    const auto inside = laws::compile_all(inner, group), across = laws::compile_all(outer, groups);
    const auto part = [](const program& one) { return one.scratch_count / double(one.chunks); };  // of the buffer, in scratch
    double scratch = 0, parts_scratch = 0;
    for (const program& each : inside) parts_scratch = std::max(parts_scratch, laws::arriving_bytes(each, n));
    for (const program& each : across) parts_scratch = std::max(parts_scratch, laws::arriving_bytes(each, n / group));
    for (const program& each : laws::compile_all(strategy, p)) {
      CHECK(each.rounds() == inner.rounds(group) + outer.rounds(groups) + (placement(strategy, p).settles() ? 1 : 0));
      const program &in = inside[detail::index(each.rank % group)], &out = across[detail::index(each.rank / group)];
      CHECK(part(each) == doctest::Approx(std::max(part(in), part(out) / group)));
      CHECK(laws::bytes_sent(each, n) == doctest::Approx(laws::bytes_sent(in, n) + laws::bytes_sent(out, n / group)));
      scratch = std::max(scratch, laws::arriving_bytes(each, n));
    }
    CHECK(scratch == doctest::Approx(parts_scratch));
    CHECK(cost(strategy, wire, p, n) == doctest::Approx(cost(inner, wire, group, n) + cost(outer, wire, groups, n / group)));
  };
  for (const int groups : {1, 2, 3, 5, 8}) {
    for (const int group : {1, 2, 3, 5, 8}) states(ring{}, halving_doubling{}, group, groups), states(ring{}, tree{}, group, groups);
    for (const int group : {1, 2, 3, 5, 8}) states(ring{}, recursive_doubling{}, group, groups);
    for (const int group : {1, 2, 4, 8}) states(halving_doubling{}, ring{}, group, groups);
  }
  for (const program& each : laws::compile_all(rings{.group = 4}, 12)) CHECK(laws::bytes_sent(each, n) == doctest::Approx(2 * n * 11 / 12));
}

TEST_CASE("where shares differ, hierarchical costs what the largest share costs") {
  const gradsync::link wire{.alpha = 3, .beta = 5, .gamma = 7};
  const hierarchical strategy{halving_doubling{}, ring{}, 3};  // two of three ranks own half each
  CHECK(cost(strategy, wire, 12, 960) == doctest::Approx(cost(halving_doubling{}, wire, 3, 960) + cost(ring{}, wire, 4, 480)));
}

TEST_CASE("a part of a shard belongs to the rank that the outer strategy names, at the place that the inner one names") {
  const hierarchical strategy{ring{}, halving_doubling{}, 3};  // six ranks: chunks 0..5, two in each shard
  CHECK(strategy.chunks(6) == 6);
  CHECK(strategy.reduce_rounds(6) == 3);
  for (int chunk = 0; chunk < 6; ++chunk) CHECK(strategy.owner(chunk, 6) == chunk % 2 * 3 + chunk / 2);
}
