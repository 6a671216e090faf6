// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0
#include "gradsync/sync/window.hpp"

#include <doctest/doctest.h>

#include <vector>

#include "gradsync/core/host_stream.hpp"

using namespace gradsync;

namespace {

constexpr auto on_host = [](std::size_t bytes) { return aligned_bytes(bytes); };

series<parameter> one_of(std::size_t count) {
  series<parameter> all(1);
  all[0].count = count;
  all[0].aliases.push_back({"p0", nullptr, nullptr, nullptr});
  return all;
}

memory over(std::vector<float>& x) { return {reinterpret_cast<std::byte*>(x.data()), x.size()}; }

}  // namespace

TEST_CASE("in a tree each micro-step's gradient is taken, and the last one closes the sum") {
  const auto parameters = one_of(3);
  host_stream stream;
  window all(accumulation_mode::tree, parameters);
  for (int update = 0; update < 2; ++update) {
    std::vector<float> grad = {1, 2, 3};
    for (int m = 0; m < 3; ++m) {
      all.begin({.weight = 2, .micro_step = micro_step::more}, on_host);
      CHECK(all.first() == (m == 0));
      CHECK(all.has_partial_sums() == (m > 0));
      CHECK((all.reads() && !all.last() && !all.is_one_mean()));
      all.take(stream, 0, over(grad));
      all.end();
    }
    all.begin({.weight = 5}, on_host);
    CHECK((all.last() && all.reads() && !all.first() && !all.is_one_mean()));
    CHECK(all.scale() == 5);
    CHECK(all.weight() == 11);
    all.close(stream, over(grad), 0, over(grad), all.scale());
    CHECK(grad == std::vector<float>{11, 22, 33});
    all.reset();
    CHECK(all.first());
  }
  CHECK(all.bytes() == 2 * 64);  // sums of one and of two micro-steps
}

TEST_CASE("plain, only the last micro-step is read, for all of them") {
  const auto parameters = one_of(3);
  window all(accumulation_mode::plain, parameters);
  all.begin({.weight = 2, .micro_step = micro_step::more}, on_host);
  CHECK_FALSE(all.reads());
  all.end();
  CHECK_THROWS_AS(all.begin({.weight = 3}, on_host), usage_error);
  CHECK(all.step().weight.value() == 2);  // nothing has changed
  all.begin({.weight = 0}, on_host);
  CHECK(all.reads());
  CHECK_FALSE(all.first());
  CHECK_FALSE(all.has_partial_sums());
  CHECK(all.scale() == 2);
  CHECK(all.weight() == 2);
  CHECK(all.bytes() == 0);
}

TEST_CASE("an update of one mean is told from all others") {
  const auto parameters = one_of(3);
  for (accumulation_mode mode : {accumulation_mode::tree, accumulation_mode::plain}) {
    window all(mode, parameters);
    all.begin({.weight = 0.1}, on_host);
    CHECK(all.is_one_mean());
    all.begin({.weight = 0}, on_host);
    CHECK_FALSE(all.is_one_mean());
    all.begin({.weight = 3, .gradient = gradient_kind::sum}, on_host);
    CHECK_FALSE(all.is_one_mean());
    CHECK(all.scale() == 1);
    CHECK_THROWS_AS(all.begin({.weight = -1}, on_host), usage_error);
  }
}
