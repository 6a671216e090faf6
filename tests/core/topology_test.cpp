// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0
#include "gradsync/core/topology.hpp"

#include <doctest/doctest.h>

#include <limits>
#include <string>

using gradsync::flat;
using gradsync::topology;

namespace {

constexpr gradsync::link quick{.alpha = 1, .beta = 2, .gamma = 3};

// 2 racks or more of 3 nodes of 4 ranks.
constexpr topology racks{
    .tiers = {{.units = 4, .wire = quick, .nics = 2}, {.units = 3, .wire = quick, .nics = 1}, {.units = 0, .wire = quick}}};

std::string refused(const topology& t, int size) {
  const char* why = t.refuses(size);
  return why != nullptr ? why : "";
}

}  // namespace

TEST_CASE("the innermost unit that holds both ranks says which link a message takes") {
  static_assert(racks.outermost() == 2);
  for (int a = 0; a < 40; ++a)
    for (int b = 0; b < 40; ++b) {
      const int expected = a / 4 == b / 4 ? 0 : a / 12 == b / 12 ? 1 : 2;
      CHECK(racks.tier_between(a, b) == expected);
    }
}

TEST_CASE("a flat topology has one link and any number of ranks") {
  constexpr topology t = flat(quick);
  static_assert(t.outermost() == 0 && t.tier_between(0, 1'000'000) == 0 && t.refuses(1'000'000) == nullptr);
  static_assert(t.tiers[0].wire.alpha == 1 && t.tiers[0].wire.beta == 2 && t.tiers[0].wire.gamma == 3);
  static_assert(t.ranks_in(0) == 0);
}

TEST_CASE("units are counted in ranks") {
  static_assert(racks.ranks_in(0) == 4 && racks.ranks_in(1) == 12 && racks.ranks_in(2) == 0);
  static_assert(topology{.tiers = {{.units = 1 << 20}, {.units = 1 << 20}, {}}}.ranks_in(1) == std::int64_t{1} << 40);
}

TEST_CASE("neighbouring ranks share a card, and every unit has its own") {
  const int node_cards[] = {0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7};
  for (int rank = 0; rank < 16; ++rank) {
    CHECK(racks.nic_of(rank, 0) == node_cards[rank]);
    CHECK(racks.nic_of(rank, 1) == rank / 12);
  }
  constexpr topology uneven{.tiers = {{.units = 3, .nics = 2}, {}}};
  static_assert(uneven.nic_of(0, 0) == 0 && uneven.nic_of(1, 0) == 0 && uneven.nic_of(2, 0) == 1 && uneven.nic_of(3, 0) == 2);
}

TEST_CASE("with all tiers numbered, the last holds what its number says and no more") {
  constexpr topology full{.tiers = {{.units = 2}, {.units = 2}, {.units = 2}, {.units = 2}}};
  static_assert(full.outermost() == 3 && full.ranks_in(3) == 16 && full.tier_between(0, 15) == 3 && full.tier_between(0, 7) == 2);
  CHECK(refused(full, 16).empty());
  CHECK(refused(full, 17) == "there are more ranks than the tiers hold; give the last one no number");
}

TEST_CASE("what no cluster can be is refused in words") {
  CHECK(refused(racks, 1).empty());
  CHECK(refused(racks, 1000).empty());
  CHECK(refused(racks, 0) == "there must be at least one rank");
  CHECK(refused({.tiers = {{.units = -8}, {}}}, 8) == "a tier of a topology cannot have less than one unit");
  CHECK(refused({.tiers = {{.units = 8, .nics = -1}, {}}}, 8) == "a unit of a topology cannot have less than no network card");
  CHECK(refused({.tiers = {{.units = 0, .nics = 1}}}, 8) ==
        "the last tier has network cards, but nothing lies outside of it; give them to the tier inside");
  CHECK(refused({.tiers = {{.units = 0}, {.units = 4}}}, 8) == "tiers follow one that holds all ranks; give that one a number of units");
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const gradsync::link& wrong :
       {gradsync::link{-1, 0, 0}, gradsync::link{0, -1, 0}, gradsync::link{0, 0, -1}, gradsync::link{nan, 0, 0}})
    CHECK(refused(flat(wrong), 8) == "a link cannot cost less than nothing");
}
