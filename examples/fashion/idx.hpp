// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// Labelled images from gzipped IDX files: Fashion-MNIST, MNIST, and whatever else keeps their four file names.
///
/// An IDX file is a big-endian header (magic number, count, for images also rows and columns) and then one byte a pixel or label. Nothing
/// in it is believed before it is checked: every damage ends in one `data_error`, whose text is one line that begins with the file's name.
///
///     fashion::dataset data = fashion::read_dataset("/usr/share/datasets/fashion-mnist");
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace fashion {

struct data_error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Labels run from 0 to classes - 1.
inline constexpr std::size_t classes = 10;

/// `count` images of `rows` x `columns` bytes, one after the other, and a label for each. There is at least one image.
struct image_set {
  std::size_t count = 0, rows = 0, columns = 0;
  std::vector<std::uint8_t> pixels, labels;

  std::size_t pixels_per_image() const { return rows * columns; }
};

struct dataset {
  image_set train, test;
};

/// Throws `data_error` if a file is missing, damaged, or does not fit the other one.
image_set read_image_set(const std::string& images_path, const std::string& labels_path);

/// Reads {train,t10k}-images-idx3-ubyte.gz and {train,t10k}-labels-idx1-ubyte.gz from a folder. Throws `data_error`, also if the images of
/// the two sets differ in size.
dataset read_dataset(const std::string& folder);

}  // namespace fashion
