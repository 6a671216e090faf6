// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0
#include "gradsync/collective/any_strategy.hpp"

#include <doctest/doctest.h>

#include <string>

#include "gradsync/collective/compile.hpp"
#include "gradsync/collective/cost.hpp"
#include "gradsync/collective/hierarchical.hpp"
#include "gradsync/collective/native.hpp"
#include "gradsync/collective/print.hpp"
#include "gradsync/collective/ring.hpp"
#include "gradsync/collective/tree.hpp"
#include "gradsync/collective/verify.hpp"

using namespace gradsync;

namespace {

// Where `rank` divides a chunk.
template <strategy S>
detail::division division_of(const S& s, int rank, int size, int chunk) {
  const erased_strategy<S> erased(s, size);
  series<detail::division> all(static_cast<std::size_t>(erased.chunks));
  detail::find_divisions(erased, rank, all.data());
  return all[static_cast<std::size_t>(chunk)];
}

constexpr bool posts_as_ring(const any_strategy& s) {
  series<message> posted;
  s.post(0, 2, posted);
  s.post(3, 2, posted);
  return posted.size() == 4 && posted[0].sends && posted[0].rank == 2 && posted[0].peer == 3 && posted[0].first == 1 &&
         posted[0].count == 1 && !posted[1].sends && posted[1].peer == 1 && posted[1].first == 0 && posted[1].what == effect::add &&
         posted[2].sends && posted[3].what == effect::copy;
}

}  // namespace

// In constant expressions too, where a virtual call takes nobody's time.
static_assert(posts_as_ring(erased_strategy<ring>(ring{}, 4)));
static_assert(verify(erased_strategy<tree>(tree{}, 5)).holds());

TEST_CASE("an erased strategy says what its strategy says of the number of ranks") {
  const erased_strategy<tree> four(tree{.segments = 3}, 4);
  CHECK(std::string(four.name) == "tree");
  CHECK(four.size == 4);
  CHECK(four.refusal == nullptr);
  CHECK_FALSE(four.fused);
  CHECK(four.claim == level::canonical);
  CHECK(four.chunks == 3);
  CHECK(four.rounds == 6);
  CHECK(four.typed.segments == 3);
  CHECK(erased_strategy<native>(native{}, 2).fused);
  CHECK(erased_strategy<ring>(ring{}, 5).claim == level::agreed);
}

TEST_CASE("nothing more is asked of a strategy that refuses the number of ranks, or about none") {
  using levels = hierarchical<ring, tree>;
  const erased_strategy<levels> refused(levels{.group = 0}, 4);  // it would divide by its group
  CHECK(std::string(refused.refusal) == "a group of hierarchical has at least one rank");
  CHECK(refused.rounds == 0);
  CHECK(erased_strategy<levels>(levels{}, 0).chunks == 0);
  CHECK(verify(refused).first.what == violation::kind::refused_size);
  CHECK(verify(erased_strategy<levels>(levels{}, 0)).first.what == violation::kind::bad_size);
}

TEST_CASE("proof, program, cost and table are the same with and without the type") {
  const hierarchical<ring, tree> s{.group = 3};
  const erased_strategy<hierarchical<ring, tree>> erased(s, 6);
  CHECK(verify(erased).reproducibility == verify(s, 6).reproducibility);
  CHECK(compile(erased, 4, placement(erased)).operations == compile(s, 4, 6).operations);
  CHECK(cost(erased, gradsync::link{}, 1e6) == cost(s, gradsync::link{}, 6, 1e6));
  CHECK(cost_curve(erased)(gradsync::link{}, 1e6) == cost(erased, gradsync::link{}, 1e6));
  CHECK(print(erased) == print(s, 6));
}

TEST_CASE("a rank divides after its last add, unless a copy follows") {
  const detail::division at_root = division_of(tree{.segments = 2}, 0, 4, 1);
  CHECK(at_root.round == 2);                                     // segment 1 reaches the top one round after segment 0
  CHECK(at_root.receive == 0);                                   // it comes alone then
  CHECK(division_of(tree{.segments = 2}, 2, 4, 1).round == -1);  // adds, then copies
  CHECK(division_of(tree{.segments = 2}, 3, 4, 0).round == -1);  // only copies
  CHECK(division_of(ring{}, 1, 3, 1).round == 1);
  CHECK(division_of(ring{}, 1, 3, 0).round == -1);
}
