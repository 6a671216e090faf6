// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// Small gzipped IDX files for tests: whole ones that a model can learn from, and the bytes from which damaged ones are made.
#pragma once

#include <zlib.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "examples/fashion/mlp.hpp"  // random_source

namespace generated {

using bytes = std::vector<std::uint8_t>;

/// A folder of its own for a test, gone with all that is in it at the end.
class folder {
 public:
  folder() {
    const char* given = std::getenv("TEST_TMPDIR");
    std::string name = std::string{given == nullptr ? "/tmp" : given} + "/fashion_XXXXXX";
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error{"no folder for the test: " + name};
    path_ = name;
  }
  ~folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  folder(const folder&) = delete;
  folder& operator=(const folder&) = delete;

  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

inline void write_file(const std::string& path, const bytes& content) {
  std::ofstream file{path, std::ios::binary};
  file.write(reinterpret_cast<const char*>(content.data()), static_cast<std::streamsize>(content.size()));
  if (!file) throw std::runtime_error{"cannot write " + path};
}

inline bytes read_file(const std::string& path) {
  std::ifstream file{path, std::ios::binary};
  const std::string text{std::istreambuf_iterator<char>{file}, {}};
  return {text.begin(), text.end()};
}

inline void write_gzip(const std::string& path, const bytes& content) {
  gzFile file = gzopen(path.c_str(), "wb6");
  if (file == nullptr) throw std::runtime_error{"cannot write " + path};
  const int length = static_cast<int>(content.size());
  const bool whole = length == 0 || gzwrite(file, content.data(), static_cast<unsigned>(length)) == length;
  if (gzclose(file) != Z_OK || !whole) throw std::runtime_error{"cannot write " + path};
}

inline bytes idx(std::initializer_list<std::uint32_t> header, const bytes& payload) {
  bytes file;
  for (const std::uint32_t number : header)
    for (const int shift : {24, 16, 8, 0}) file.push_back(static_cast<std::uint8_t>(number >> shift));
  file.insert(file.end(), payload.begin(), payload.end());
  return file;
}

inline bytes idx_images(std::uint32_t count, std::uint32_t rows, std::uint32_t columns, const bytes& pixels) {
  return idx({0x803, count, rows, columns}, pixels);
}

inline bytes idx_labels(const bytes& labels) { return idx({0x801, static_cast<std::uint32_t>(labels.size())}, labels); }

/// The four files of a data set of 6 x 6 images: each class has a pattern of its own, under noise.
inline void write_dataset(const std::string& path, std::uint32_t train, std::uint32_t test) {
  constexpr std::size_t pixels = 36;
  fashion::random_source random{20260101};
  bytes patterns(fashion::classes * pixels);
  for (auto& pixel : patterns) pixel = static_cast<std::uint8_t>(random.next() * 180);
  const auto write = [&](const std::string& name, std::uint32_t count) {
    bytes labels, images;
    for (std::uint32_t i = 0; i < count; ++i) {
      const auto label = static_cast<std::size_t>(random.next() * static_cast<double>(fashion::classes));
      labels.push_back(static_cast<std::uint8_t>(label));
      for (std::size_t p = label * pixels; p < (label + 1) * pixels; ++p)
        images.push_back(static_cast<std::uint8_t>(patterns[p] + random.next() * 75));
    }
    write_gzip(path + "/" + name + "-images-idx3-ubyte.gz", idx_images(count, 6, 6, images));
    write_gzip(path + "/" + name + "-labels-idx1-ubyte.gz", idx_labels(labels));
  };
  write("train", train);
  write("t10k", test);
}

}  // namespace generated
