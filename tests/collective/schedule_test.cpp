// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0
#include "gradsync/collective/schedule.hpp"

#include <doctest/doctest.h>

#include <string>

#include "gradsync/collective/native.hpp"
#include "gradsync/collective/ring.hpp"
#include "gradsync/collective/tree.hpp"
#include "tests/laws/strategies.hpp"
#include "tests/laws/strategy_laws.hpp"

using namespace gradsync;
using laws::everyone_to_rank_0;

namespace {

struct without_claim {
  constexpr const char* name() const { return "without_claim"; }
  constexpr int chunks(int) const { return 1; }
  constexpr int rounds(int) const { return 0; }
  template <class Post>
  constexpr void round(int, int, int, Post&&) const {}
};

struct not_fused : everyone_to_rank_0 {
  static constexpr bool fused = false;
};

}  // namespace

static_assert(verify(everyone_to_rank_0{}, 5).holds());
static_assert(strategy<everyone_to_rank_0> && !sharding<everyone_to_rank_0>);
static_assert(sharding<ring> && sharding<native> && !sharding<tree>);
static_assert(!strategy<without_claim> && !strategy<int>);
static_assert(is_fused<native>() && !is_fused<ring>() && !is_fused<not_fused>());

TEST_CASE("the strategy that the first page shows obeys the laws") { laws::strategy_laws(everyone_to_rank_0{}); }

TEST_CASE("levels have names, in ascending order") {
  CHECK(std::string(name_of(level::none)) == "none");
  CHECK(std::string(name_of(level::agreed)) == "agreed");
  CHECK(std::string(name_of(level::uniform)) == "uniform");
  CHECK(std::string(name_of(level::canonical)) == "canonical");
  CHECK((level::none < level::agreed && level::agreed < level::uniform && level::uniform < level::canonical));
}
