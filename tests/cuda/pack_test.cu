// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0
#include "gradsync/cuda/pack.hpp"

#include <doctest/doctest.h>

#include <cstdint>

using namespace gradsync::detail;

namespace {

template <class T>
struct two_views {
  alignas(16) T to[16] = {}, from[16];
  run_list list{};
  two_views() {
    list.runs = 1, list.views = 2;
    for (int i = 0; i < 16; ++i) from[i] = static_cast<T>(i + 1);
    list.at[0] = reinterpret_cast<std::byte*>(to);
    list.at[1] = reinterpret_cast<std::byte*>(from);
  }
  // Elements first .. first + n - 1 are those of the source, and no others.
  bool copied(int first, int n) const {
    for (int i = 0; i < 16; ++i)
      if (to[i] != (i >= first && i < first + n ? from[i] : T{})) return false;
    return true;
  }
};

}  // namespace

TEST_CASE_TEMPLATE("a pack is loaded and stored where its site is, by 16 bytes or by itself", T, std::uint16_t, float, double) {
  constexpr int width = 16 / sizeof(T);
  two_views<T> wide, twice, single;
  const site<width> here{wide.list, 0, width};
  here.store(0, here.template load<T>(1));
  CHECK(wide.copied(width, width));
  const site<2 * width> longer{twice.list, 0, 0};
  longer.store(0, longer.template load<T>(1));
  CHECK(twice.copied(0, 2 * width));
  const site<1> one{single.list, 0, 5};
  one.store(0, one.template load<T>(1));
  CHECK(single.copied(5, 1));
}

TEST_CASE_TEMPLATE("what nobody looks at is passed on as it is", T, std::uint8_t, std::uint32_t, std::uint64_t) {
  constexpr int width = 16 / sizeof(T);
  two_views<T> wide, single;
  const site<width> here{wide.list, 0, 0};
  here.store(0, here.template load_sealed<T>(1));
  CHECK(wide.copied(0, width));
  const site<1> one{single.list, 0, 3};
  one.store(0, one.template load_sealed<T>(1));
  CHECK(single.copied(3, 1));
}
