// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

#include "gradsync/comm/pass.hpp"

#include <doctest/doctest.h>

#include <stdexcept>

using namespace gradsync;

namespace {

struct peers {
  struct lane {
    std::atomic<std::uint32_t> inside{0};
  };
  mutable lane own{};
  bool has_failed = false;

  lane& mine() const { return own; }
  bool failed() const { return has_failed; }
  [[noreturn]] void report() const { throw std::runtime_error("rank 1 failed"); }
};

}  // namespace

TEST_CASE("a pass is seen from outside as long as it lasts") {
  const peers all;
  {
    const detail::pass inside(all);
    CHECK(all.own.inside == 1);
  }
  CHECK(all.own.inside == 0);
}

TEST_CASE("a pass does not begin where the group has failed") {
  peers all;
  all.has_failed = true;
  const auto begin = [&] { const detail::pass inside(all); };
  CHECK_THROWS_WITH(begin(), "rank 1 failed");
  CHECK(all.own.inside == 0);
}
