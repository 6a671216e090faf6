// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// Images to train on, without a file: each class has a pattern of its own, under noise that makes some of them hard to tell.
///
///     fashion::dataset data = bench::made_images(28, 16'384, 2'048);
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "examples/fashion/idx.hpp"
#include "examples/fashion/mlp.hpp"  // random_source

namespace bench {

/// Of `side` x `side` bytes; always the same ones.
inline fashion::dataset made_images(std::size_t side, std::size_t train, std::size_t test) {
  fashion::random_source random{20260101};
  const std::size_t pixels = side * side;
  std::vector<double> patterns(fashion::classes * pixels);
  for (double& pixel : patterns) pixel = 96 + 64 * random.next();
  const auto make = [&](std::size_t count) {
    fashion::image_set set{.count = count, .rows = side, .columns = side, .pixels = {}, .labels = {}};
    for (std::size_t i = 0; i < count; ++i) {
      const auto label = static_cast<std::size_t>(random.next() * static_cast<double>(fashion::classes));
      set.labels.push_back(static_cast<std::uint8_t>(label));
      for (std::size_t p = label * pixels; p < (label + 1) * pixels; ++p)
        set.pixels.push_back(static_cast<std::uint8_t>(std::clamp(patterns[p] + 512 * (random.next() - 0.5), 0.0, 255.0)));
    }
    return set;
  };
  fashion::dataset data;
  data.train = make(train);
  data.test = make(test);
  return data;
}

}  // namespace bench
