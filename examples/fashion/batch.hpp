// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// From bytes on the shelf to the columns of a matrix: picks examples by index and normalises their pixels to mean 0, deviation 1.
///
/// Mean and deviation are those of the training set, from whole-number sums: every rank computes the same bits, whatever its share.
///
///     batch few;
///     few.gather(data.train, indices, pixel_scale{data.train});   // few.inputs: one column an example
#pragma once

#include <Eigen/Core>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "examples/fashion/idx.hpp"

namespace fashion {

/// What each of the 256 byte values becomes.
class pixel_scale {
 public:
  explicit pixel_scale(const image_set& images) {
    std::array<std::uint64_t, 256> seen{};
    for (const std::uint8_t pixel : images.pixels) ++seen[pixel];
    std::uint64_t sum = 0, squares = 0;
    for (std::uint64_t value = 0; value < 256; ++value) sum += value * seen[value], squares += value * value * seen[value];
    const double count = static_cast<double>(images.pixels.size());
    const double mean = static_cast<double>(sum) / count;
    const double variance = static_cast<double>(squares) / count - mean * mean;
    const double deviation = variance > 0 ? std::sqrt(variance) : 1;  // images of one colour: nothing to learn, nothing to divide by
    for (std::size_t value = 0; value < 256; ++value) scaled_[value] = static_cast<float>((static_cast<double>(value) - mean) / deviation);
  }

  float operator()(std::uint8_t pixel) const { return scaled_[pixel]; }

 private:
  std::array<float, 256> scaled_{};
};

/// Some examples, ready for the model. Its memory is kept from one `gather` to the next.
struct batch {
  Eigen::MatrixXf inputs;            ///< pixels x examples
  std::vector<std::uint8_t> labels;  ///< one for each column

  std::size_t size() const { return labels.size(); }

  /// `indices` is a sized range of image numbers below images.count.
  template <class Indices>
  void gather(const image_set& images, const Indices& indices, const pixel_scale& scale) {
    const std::size_t pixels = images.pixels_per_image();
    inputs.resize(static_cast<Eigen::Index>(pixels), static_cast<Eigen::Index>(indices.size()));
    labels.clear();
    float* input = inputs.data();
    for (const auto index : indices) {
      const std::uint8_t* image = images.pixels.data() + static_cast<std::size_t>(index) * pixels;
      for (std::size_t p = 0; p < pixels; ++p) *input++ = scale(image[p]);
      labels.push_back(images.labels[static_cast<std::size_t>(index)]);
    }
  }
};

}  // namespace fashion
