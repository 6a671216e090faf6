// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

#include "gradsync/model/fingerprint.hpp"

#include <doctest/doctest.h>

#include <bit>
#include <cstdint>
#include <limits>
#include <set>
#include <vector>

namespace {

struct param {
  std::vector<float> value, grad;
};
struct net {
  param first, second;
};

net make_net(std::size_t first, std::size_t second) {
  net model;
  for (std::size_t i = 0; i < first; ++i) model.first.value.push_back(static_cast<float>(i) * 0.5f);
  for (std::size_t i = 0; i < second; ++i) model.second.value.push_back(static_cast<float>(i) - 3);
  return model;
}

}  // namespace

TEST_CASE("equal bits give equal fingerprints, wherever they lie and whatever the gradients hold") {
  net one = make_net(1001, 7), two = make_net(1001, 7);
  two.first.grad.assign(1001, 3.0f);
  CHECK(gradsync::fingerprint(one) == gradsync::fingerprint(two));
  CHECK(gradsync::fingerprint(one) == gradsync::fingerprint(gradsync::parameters_of(two)));
  struct plain {
    std::vector<float> first, second;
  } model{one.first.value, one.second.value}, grads;
  CHECK(gradsync::fingerprint(model, grads) == gradsync::fingerprint(one));
}

TEST_CASE("every single bit of every length counts") {
  for (std::size_t count : {1u, 2u, 3u, 7u, 8u, 9u, 17u}) {
    net model = make_net(count, 1);
    std::set<std::uint64_t> seen{gradsync::fingerprint(model)};
    for (auto& x : model.first.value)
      for (int bit = 0; bit < 32; ++bit) {
        const float before = x;
        x = std::bit_cast<float>(std::bit_cast<std::uint32_t>(x) ^ (1u << bit));
        seen.insert(gradsync::fingerprint(model));
        x = before;
      }
    CHECK(seen.size() == 32 * count + 1);
  }
}

TEST_CASE("order, borders, types, signs of zero and NaN payloads count") {
  const auto base = gradsync::fingerprint(make_net(4, 4));
  net moved = make_net(4, 4);
  moved.second.value.insert(moved.second.value.begin(), moved.first.value.back());
  moved.first.value.pop_back();
  CHECK(gradsync::fingerprint(moved) != base);
  net swapped = make_net(4, 4);
  std::swap(swapped.first, swapped.second);
  CHECK(gradsync::fingerprint(swapped) != base);
  net longer = make_net(4, 4);
  longer.second.value.push_back(0);
  CHECK(gradsync::fingerprint(longer) != base);

  net zero{{{0.0f}, {}}, {{1}, {}}}, negative{{{-0.0f}, {}}, {{1}, {}}};
  CHECK(gradsync::fingerprint(zero) != gradsync::fingerprint(negative));
  net nan{{{std::bit_cast<float>(0x7FC00000u)}, {}}, {{1}, {}}}, other{{{std::bit_cast<float>(0x7FC00001u)}, {}}, {{1}, {}}};
  CHECK(gradsync::fingerprint(nan) != gradsync::fingerprint(other));

  struct {
    struct {
      std::vector<double> value, grad;
    } p;
  } wide{{{0, 0}, {}}};
  struct {
    struct {
      std::vector<float> value, grad;
    } p;
  } narrow{{{0, 0, 0, 0}, {}}};
  CHECK(gradsync::fingerprint(wide) != gradsync::fingerprint(narrow));
}

TEST_CASE("words that change places across lanes are seen") {
  net model = make_net(64, 1);
  std::set<std::uint64_t> seen{gradsync::fingerprint(model)};
  for (std::size_t i = 0; i < 64; ++i)
    for (std::size_t j = 0; j < i; ++j) {
      std::swap(model.first.value[i], model.first.value[j]);
      seen.insert(gradsync::fingerprint(model));
      std::swap(model.first.value[i], model.first.value[j]);
    }
  CHECK(seen.size() == 1 + 64 * 63 / 2);
}

TEST_CASE("the value is fixed for all time and printed as 16 digits") {
  CHECK(gradsync::to_hex(gradsync::fingerprint(make_net(9, 2))) == "d7d5e62e05330cbc");
  CHECK(gradsync::to_hex(0) == "0000000000000000");
  CHECK(gradsync::to_hex(0xFEDCBA9876543210u) == "fedcba9876543210");
}
