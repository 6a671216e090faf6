// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

// A model of one array, and what every optimizer is asked to do with it. `make(model)` makes the optimizer.
#pragma once

#include <doctest/doctest.h>

#include <cstddef>
#include <cstring>
#include <span>
#include <vector>

namespace test {

template <class T>
struct one_array {
  struct {
    std::vector<T> value, grad;
  } weight;
};

// Values after four steps on gradients that depend on step and value.
template <class T, class Make>
std::vector<T> four_steps(const Make& make) {
  one_array<T> model{{{1, -2, T(0.5)}, {0, 0, 0}}};
  auto opt = make(model);
  for (int t = 0; t < 4; ++t) {
    const auto& w = model.weight.value;
    const T step = static_cast<T>(t);
    model.weight.grad = {T(0.5) * (step + 1) + T(0.1) * w[0], step - 1 + T(0.1) * w[1], T(0.25) + T(0.1) * w[2]};
    opt.step();
  }
  return model.weight.value;
}

// Trains arrays that begin at four places within a vector of the processor, and compares their bits.
template <class Make>
void same_bits_wherever_memory_lies(const Make& make) {
  constexpr std::size_t count = 1003;
  struct view {
    struct {
      std::span<float> value, grad;
    } weight;
  };
  std::vector<float> results[4];
  for (std::size_t offset = 0; offset < 4; ++offset) {
    std::vector<float> value(count + 4), grad(count + 8);
    view model{{std::span(value).subspan(offset, count), std::span(grad).subspan(2 * offset, count)}};
    for (std::size_t i = 0; i < count; ++i) model.weight.value[i] = 1.0f / static_cast<float>(i + 1);
    auto opt = make(model);
    for (int t = 0; t < 5; ++t) {
      for (std::size_t i = 0; i < count; ++i) model.weight.grad[i] = model.weight.value[i] * 0.3f + static_cast<float>(i % 7) * 0.01f;
      opt.step();
    }
    results[offset].assign(model.weight.value.begin(), model.weight.value.end());
  }
  for (std::size_t offset = 1; offset < 4; ++offset)
    CHECK(std::memcmp(results[offset].data(), results[0].data(), count * sizeof(float)) == 0);
}

}  // namespace test
