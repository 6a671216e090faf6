// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

#include "examples/fashion/idx.hpp"

#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <span>

namespace fashion {
namespace {

// Far above every data set in this format (Fashion-MNIST holds 47 MB), so that a damaged header can't make us ask for terabytes.
constexpr std::uint64_t most_bytes = std::uint64_t{1} << 30;

constexpr std::uint32_t images_magic = 0x00000803, labels_magic = 0x00000801;

/// A gzip file that is read from front to back. zlib checks its checksum when the end is reached.
class gzip_file {
 public:
  explicit gzip_file(const std::string& path) : path_(path) {
    std::error_code unreadable;
    const auto status = std::filesystem::status(path, unreadable);
    if (!std::filesystem::exists(status)) fail("there is no such file");
    if (!std::filesystem::is_regular_file(status)) fail("is not a file");
    file_ = gzopen(path.c_str(), "rb");
    if (file_ == nullptr) fail("cannot be opened");
    if (gzdirect(file_) != 0) {  // zlib would hand out the bytes of any other file as they are
      gzclose(file_);
      fail("is not a gzip file");
    }
  }
  ~gzip_file() { gzclose(file_); }
  gzip_file(const gzip_file&) = delete;
  gzip_file& operator=(const gzip_file&) = delete;

  [[noreturn]] void fail(const std::string& what) const { throw data_error{path_ + ": " + what}; }

  void read(std::span<std::uint8_t> bytes) {
    if (read_some(bytes) != bytes.size()) fail("ends before the data that its header announces");
  }

  std::uint32_t read_number() {
    std::uint8_t bytes[4];
    read(bytes);
    return std::uint32_t{bytes[0]} << 24 | std::uint32_t{bytes[1]} << 16 | std::uint32_t{bytes[2]} << 8 | std::uint32_t{bytes[3]};
  }

  /// Memory grows with what really arrives: a header may announce more than the file holds.
  std::vector<std::uint8_t> read_bytes(std::size_t count) {
    constexpr std::size_t piece = std::size_t{1} << 22;
    std::vector<std::uint8_t> bytes;
    while (bytes.size() < count) {
      const std::size_t before = bytes.size();
      bytes.resize(std::min(count, before + piece));
      read(std::span{bytes}.subspan(before));
    }
    return bytes;
  }

  void expect_end() {
    std::uint8_t extra[1];
    if (read_some(extra) != 0) fail("holds more data than its header announces");
  }

 private:
  std::size_t read_some(std::span<std::uint8_t> bytes) {
    const int got = gzread(file_, bytes.data(), static_cast<unsigned>(bytes.size()));
    int code = Z_OK;
    gzerror(file_, &code);
    if (code == Z_BUF_ERROR) fail("is cut off: its compressed data has no end");
    if (code == Z_DATA_ERROR) fail("is damaged: its compressed data or checksum is wrong");
    if (got < 0 || code != Z_OK) fail("cannot be read");
    return static_cast<std::size_t>(got);
  }

  std::string path_;
  gzFile file_ = nullptr;
};

std::vector<std::uint8_t> read_labels(const std::string& path) {
  gzip_file file{path};
  if (file.read_number() != labels_magic) file.fail("is not an IDX file of labels: its magic number is wrong");
  const std::uint32_t count = file.read_number();
  if (count > most_bytes) file.fail("announces " + std::to_string(count) + " labels, more than this program reads");
  auto labels = file.read_bytes(count);
  file.expect_end();
  for (std::size_t i = 0; i < labels.size(); ++i) {
    if (labels[i] < classes) continue;
    file.fail("label " + std::to_string(i) + " is " + std::to_string(labels[i]) + ", the largest one is " + std::to_string(classes - 1));
  }
  return labels;
}

image_set read_images(const std::string& path) {
  gzip_file file{path};
  if (file.read_number() != images_magic) file.fail("is not an IDX file of images: its magic number is wrong");
  const std::uint32_t count = file.read_number(), rows = file.read_number(), columns = file.read_number();
  const std::string announced = std::to_string(count) + " images of " + std::to_string(rows) + " x " + std::to_string(columns);
  if (count == 0 || rows == 0 || columns == 0) file.fail("is empty: it announces " + announced);
  // Divided, because the product of three such numbers need not fit into 64 bits.
  if (rows > most_bytes / columns || count > most_bytes / (std::uint64_t{rows} * columns))
    file.fail("announces " + announced + ", more than this program reads");
  image_set images{.count = count, .rows = rows, .columns = columns, .pixels = {}, .labels = {}};
  images.pixels = file.read_bytes(images.count * images.pixels_per_image());
  file.expect_end();
  return images;
}

}  // namespace

image_set read_image_set(const std::string& images_path, const std::string& labels_path) {
  image_set images = read_images(images_path);
  images.labels = read_labels(labels_path);
  if (images.labels.size() != images.count)
    throw data_error{labels_path + ": holds " + std::to_string(images.labels.size()) + " labels for the " + std::to_string(images.count) +
                     " images of " + images_path};
  return images;
}

dataset read_dataset(const std::string& folder) {
  std::error_code unreadable;
  if (!std::filesystem::is_directory(folder, unreadable))
    throw data_error{folder + ": there is no such folder; Debian's package dataset-fashion-mnist brings the data"};
  dataset data{read_image_set(folder + "/train-images-idx3-ubyte.gz", folder + "/train-labels-idx1-ubyte.gz"),
               read_image_set(folder + "/t10k-images-idx3-ubyte.gz", folder + "/t10k-labels-idx1-ubyte.gz")};
  if (data.test.rows != data.train.rows || data.test.columns != data.train.columns)
    throw data_error{folder + "/t10k-images-idx3-ubyte.gz: its images differ in size from those of train-images-idx3-ubyte.gz"};
  return data;
}

}  // namespace fashion
