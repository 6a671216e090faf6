// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

#include "gradsync/core/series.hpp"

#include <atomic>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

#include <doctest/doctest.h>

using gradsync::series;
using gradsync::series_view;

namespace {

constexpr int sum_of(std::span<const int> all) {
  int sum = 0;
  for (const int x : all) sum += x;
  return sum;
}

constexpr series<int> one_to(int n) {
  series<int> all;
  for (int i = 1; i <= n; ++i) all.push_back(i);
  return all;
}

// Throws on the n-th copy from now on.
struct fragile {
  static inline int copies_left = 1000, alive = 0;

  fragile() { ++alive; }
  fragile(const fragile&) : fragile() {}
  fragile& operator=(const fragile&) {
    if (copies_left-- == 0) throw std::runtime_error("no more copies");
    return *this;
  }
  ~fragile() { --alive; }
};

}  // namespace

static_assert(sum_of(one_to(100)) == 5050);
static_assert(one_to(3) == series<int>{1, 2, 3} && !(one_to(3) == one_to(4)) && !(one_to(3) == series<int>{1, 2, 4}));

TEST_CASE("A series begins empty, with so many zeros, with copies of one value, or with a list") {
  CHECK(series<int>().empty());
  CHECK(series<int>(0).begin() == series<int>(0).end());
  CHECK(series<int>(3) == series<int>{0, 0, 0});
  CHECK(series<int>(3, 7) == series<int>{7, 7, 7});
  CHECK(series<int>{}.size() == 0);
}

TEST_CASE("A series grows at its end and keeps what it holds") {
  series<std::string> all;
  for (int i = 0; i < 1000; ++i) all.push_back(std::to_string(i));
  REQUIRE(all.size() == 1000);
  for (std::size_t i = 0; i < all.size(); ++i) CHECK(all[i] == std::to_string(i));
  CHECK(all.front() == "0");
  CHECK(all.back() == "999");
}

TEST_CASE("An element of the series itself can be put at its end, even where that makes it grow") {
  series<std::string> all{"a long string that does not fit into the object itself"};
  for (int i = 0; i < 20; ++i) all.push_back(all.front());
  CHECK(all.back() == all.front());
}

TEST_CASE("What a series gets back after it was shortened is new") {
  series<int> all{1, 2, 3};
  all.resize(1);
  CHECK(all == series<int>{1});
  all.resize(4);
  CHECK(all == series<int>{1, 0, 0, 0});
  all.clear();
  CHECK(all.empty());
  all.resize(2);
  CHECK(all == series<int>{0, 0});
  all.pop_back();
  CHECK(all.size() == 1);
}

TEST_CASE("What is taken from a series is let go at once") {
  const auto shared = std::make_shared<int>(1);
  series<std::shared_ptr<int>> all{shared, shared, shared};
  CHECK(shared.use_count() == 4);
  all.pop_back();
  CHECK(shared.use_count() == 3);
  all.clear();
  CHECK(shared.use_count() == 1);
}

TEST_CASE("A copy is another series, a moved-from one is empty") {
  series<series<int>> all{{1, 2}, {3}};
  series<series<int>> copy = all;
  copy[0][0] = 9;
  CHECK(all[0][0] == 1);
  const int* where = all[1].data();
  series<series<int>> moved = std::move(all);
  CHECK(moved[1].data() == where);
  CHECK(all.empty());
  all = copy;
  CHECK(all == copy);
  all = std::as_const(all);
  CHECK(all == copy);
  moved = {};
  CHECK(moved.empty());
  copy.assign(2, {5});
  CHECK(copy == series<series<int>>{{5}, {5}});
}

TEST_CASE("Elements that can only be moved, or not even that, can be in a series") {
  series<std::unique_ptr<int>> owners;
  for (int i = 0; i < 10; ++i) owners.push_back(std::make_unique<int>(i));
  CHECK(*owners[9] == 9);
  series<std::atomic<int>> counters(3);
  counters[2] = 5;
  CHECK(counters[2] == 5);
  CHECK(counters[0] == 0);
}

TEST_CASE("Room that was reserved is not moved while the series grows into it") {
  series<int> all;
  all.reserve(100);
  all.push_back(1);
  const int* where = all.data();
  while (all.size() < 100) all.push_back(2);
  CHECK(all.data() == where);
}

TEST_CASE("A series is a span where one is asked for") {
  series<int> all{1, 2, 3};
  CHECK(sum_of(all) == 6);
  const std::span<int> writable(all);
  writable[0] = 10;
  CHECK(sum_of(std::as_const(all)) == 15);
}

TEST_CASE("A series_view reads whatever has data and a size, and a span can be made of it") {
  const auto sum_of_view = [](series_view<int> view) {
    int sum = 0;
    for (const int i : view) sum += i;
    return sum;
  };
  const int plain[] = {1, 2, 3};
  CHECK(sum_of_view(plain) == 6);
  CHECK(sum_of_view(series<int>{4, 5}) == 9);
  CHECK(sum_of_view(std::span(plain).first(2)) == 3);
  CHECK(sum_of_view({}) == 0);
  CHECK(series_view<int>().empty());
  const series_view<int> view(plain);
  CHECK(view.front() == 1);
  CHECK(view.back() == 3);
  CHECK(sum_of_view(view.first(2)) == 3);
  CHECK(sum_of_view(view.subspan(1)) == 5);
  CHECK(sum_of_view(view.subspan(1, 1)) == 2);
  CHECK(sum_of(view) == 6);
  static_assert(!std::is_constructible_v<series_view<int>, const series<long>&>);
}

TEST_CASE("A copy that throws leaves nothing behind and changes nothing") {
  {
    series<fragile> all(3);
    fragile::copies_left = 1;
    CHECK_THROWS_AS(series<fragile>{all}, std::runtime_error);
    CHECK(fragile::alive == 3);
    fragile::copies_left = 1;
    CHECK_THROWS_AS(all.reserve(10), std::runtime_error);
    CHECK(all.size() == 3);
    fragile::copies_left = 1000;
  }
  CHECK(fragile::alive == 0);
}
