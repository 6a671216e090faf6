// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

// Models that the tests of the synchronizer train, and what their results must be.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "tests/laws/scalar.hpp"

namespace test {

struct param {
  std::vector<float> value, grad;
};

struct layers {
  std::vector<param> layer;
};

inline layers make_layers(const std::vector<std::size_t>& counts) {
  layers net;
  for (std::size_t n : counts) net.layer.push_back({std::vector<float>(n), {}});
  return net;
}

// The same numbers for the same key, whoever asks.
inline std::vector<float> random_floats(std::uint64_t key, std::size_t n) {
  std::mt19937 bits(static_cast<std::uint32_t>(key * 2654435761u + 12345));
  std::vector<float> x(n);
  for (float& one : x) one = static_cast<float>(static_cast<std::int32_t>(bits())) * 1e-7f * static_cast<float>(1 + bits() % 1000);
  return x;
}

// The canonical tree over leaves first .. first+count-1, each term rounded.
template <class T, class Leaf>
T tree_sum(const Leaf& leaf, int first, int count) {
  return gradsync::laws::tree_of<T>(leaf, gradsync::laws::plus<T>, first, count);
}

}  // namespace test
