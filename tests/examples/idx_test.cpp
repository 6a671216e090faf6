// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

#include "examples/fashion/idx.hpp"

#include <doctest/doctest.h>

#include <functional>

#include "examples/fashion/batch.hpp"
#include "tests/examples/generated_data.hpp"

namespace {

using generated::bytes;

/// What reading says is wrong; empty if it finds nothing.
std::string complaint(const std::function<void()>& read) {
  try {
    read();
    return {};
  } catch (const fashion::data_error& wrong) {
    return wrong.what();
  }
}

/// A readable pair of files, three images of 2 x 2, in which a test damages something.
struct pair_of_files {
  generated::folder place;
  std::string images = place / "images.gz", labels = place / "labels.gz";

  pair_of_files() {
    generated::write_gzip(images, generated::idx_images(3, 2, 2, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 255}));
    generated::write_gzip(labels, generated::idx_labels({7, 0, 9}));
  }

  std::string complaint() const {
    return ::complaint([&] { fashion::read_image_set(images, labels); });
  }
};

/// One line, which begins with the file's name.
void check_names(const std::string& said, const std::string& file, const std::string& part) {
  CAPTURE(said);
  CHECK(said.starts_with(file + ": "));
  CHECK(said.find(part) != std::string::npos);
  CHECK(said.find('\n') == std::string::npos);
}

}  // namespace

TEST_CASE("a pair of whole files is read as it was written") {
  const pair_of_files files;
  const auto set = fashion::read_image_set(files.images, files.labels);
  CHECK(set.count == 3);
  CHECK(set.rows == 2);
  CHECK(set.columns == 2);
  CHECK(set.pixels == bytes{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 255});
  CHECK(set.labels == bytes{7, 0, 9});
}

TEST_CASE("a missing folder, a missing file and a folder in place of a file are named") {
  check_names(complaint([] { fashion::read_dataset("/nowhere/at/all"); }), "/nowhere/at/all", "there is no such folder");
  pair_of_files files;
  const std::string missing = files.place / "missing.gz";
  check_names(complaint([&] { fashion::read_image_set(missing, files.labels); }), missing, "there is no such file");
  check_names(complaint([&] { fashion::read_image_set(files.images, files.place.path()); }), files.place.path(), "is not a file");
}

TEST_CASE("a file cut off at any byte is refused") {
  const pair_of_files files;
  const bytes whole = generated::read_file(files.images);
  for (std::size_t length = 0; length < whole.size(); ++length) {
    CAPTURE(length);
    generated::write_file(files.images, {whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(length)});
    check_names(files.complaint(), files.images, "is ");
  }
  generated::write_file(files.images, whole);
  CHECK(files.complaint().empty());
}

TEST_CASE("a wrong bit in the compressed data, its checksum or its length is found, or did no harm") {
  const pair_of_files files;
  const auto right = fashion::read_image_set(files.images, files.labels);
  std::size_t found = 0;
  const bytes whole = generated::read_file(files.images);
  // Bytes 4 to 9 of a gzip file hold a date, a hint and the system: they carry no data.
  for (std::size_t i = 10; i < whole.size(); ++i) {
    CAPTURE(i);
    bytes damaged = whole;
    damaged[i] ^= 0x10;
    generated::write_file(files.images, damaged);
    const std::string said = files.complaint();
    CAPTURE(said);
    if (!said.empty()) {
      CHECK(said.starts_with(files.images + ": "));
      ++found;
    } else {  // the compressed data ends within a byte, whose other bits mean nothing
      CHECK(fashion::read_image_set(files.images, files.labels).pixels == right.pixels);
    }
  }
  CHECK(found >= whole.size() - 11);
}

TEST_CASE("a file that is not compressed, or compressed but no IDX file, is refused") {
  const pair_of_files files;
  generated::write_file(files.images, generated::idx_images(3, 2, 2, bytes(12)));
  check_names(files.complaint(), files.images, "is not a gzip file");
  generated::write_file(files.images, {});
  check_names(files.complaint(), files.images, "is not a gzip file");
  generated::write_gzip(files.images, generated::idx_labels({1, 2, 3}));
  check_names(files.complaint(), files.images, "its magic number is wrong");
}

TEST_CASE("labels and images in each other's place are refused") {
  const pair_of_files files;
  check_names(complaint([&] { fashion::read_image_set(files.images, files.images); }), files.images, "is not an IDX file of labels");
}

TEST_CASE("counts that disagree are told with both numbers") {
  const pair_of_files files;
  generated::write_gzip(files.labels, generated::idx_labels({1, 2}));
  check_names(files.complaint(), files.labels, "holds 2 labels for the 3 images of " + files.images);
}

TEST_CASE("a header that announces less or more than the file holds is refused") {
  const pair_of_files files;
  generated::write_gzip(files.images, generated::idx_images(3, 2, 2, bytes(11)));
  check_names(files.complaint(), files.images, "ends before the data that its header announces");
  generated::write_gzip(files.images, generated::idx_images(3, 2, 2, bytes(13)));
  check_names(files.complaint(), files.images, "holds more data than its header announces");
  generated::write_gzip(files.images, {0, 0, 8, 3, 0, 0});
  check_names(files.complaint(), files.images, "ends before the data that its header announces");
}

TEST_CASE("absurd sizes are refused before memory is asked for") {
  const pair_of_files files;
  constexpr std::uint32_t huge = 0xffffffff;
  using numbers = std::array<std::uint32_t, 3>;
  const std::vector<numbers> absurd{{huge, huge, huge}, {huge, 1, 1}, {1, huge, 2}, {65536, 256, 256}};
  for (const auto& [count, rows, columns] : absurd) {
    generated::write_gzip(files.images, generated::idx_images(count, rows, columns, {}));
    check_names(files.complaint(), files.images, "more than this program reads");
  }
  // Within the limit, but not in the file: the memory that is asked for follows the data, not the header.
  generated::write_gzip(files.images, generated::idx_images(1000, 1000, 1000, bytes(10)));
  check_names(files.complaint(), files.images, "ends before the data that its header announces");
}

TEST_CASE("a file without images is refused") {
  const pair_of_files files;
  for (const auto& [count, rows, columns] : {std::array{0u, 2u, 2u}, std::array{3u, 0u, 2u}, std::array{3u, 2u, 0u}}) {
    generated::write_gzip(files.images, generated::idx_images(count, rows, columns, {}));
    check_names(files.complaint(), files.images, "is empty");
  }
}

TEST_CASE("a label above 9 is refused, with its place") {
  const pair_of_files files;
  generated::write_gzip(files.labels, generated::idx_labels({1, 10, 3}));
  check_names(files.complaint(), files.labels, "label 1 is 10, the largest one is 9");
}

TEST_CASE("a data set whose test images have another size is refused") {
  const generated::folder place;
  generated::write_dataset(place.path(), 20, 10);
  CHECK(complaint([&] { fashion::read_dataset(place.path()); }).empty());
  const std::string test = place / "t10k-images-idx3-ubyte.gz";
  generated::write_gzip(test, generated::idx_images(10, 6, 5, bytes(300)));
  check_names(complaint([&] { fashion::read_dataset(place.path()); }), test, "differ in size");
}

TEST_CASE("normalised pixels of the training set have mean 0 and deviation 1") {
  const generated::folder place;
  generated::write_dataset(place.path(), 500, 10);
  const auto data = fashion::read_dataset(place.path());
  const fashion::pixel_scale scale{data.train};
  double sum = 0, squares = 0;
  for (const std::uint8_t pixel : data.train.pixels) sum += double{scale(pixel)}, squares += double{scale(pixel)} * double{scale(pixel)};
  const double count = static_cast<double>(data.train.pixels.size());
  CHECK(sum / count == doctest::Approx(0).epsilon(1e-5));
  CHECK(squares / count == doctest::Approx(1).epsilon(1e-5));
}

TEST_CASE("images of a single colour are normalised to 0, not to a division by 0") {
  const fashion::image_set grey{.count = 1, .rows = 2, .columns = 2, .pixels = {9, 9, 9, 9}, .labels = {0}};
  CHECK(fashion::pixel_scale{grey}(9) == 0);
}

TEST_CASE("a batch holds the chosen images in the chosen order") {
  const pair_of_files files;
  const auto set = fashion::read_image_set(files.images, files.labels);
  const fashion::pixel_scale scale{set};
  fashion::batch some;
  some.gather(set, std::vector<std::size_t>{2, 0, 2}, scale);
  CHECK(some.size() == 3);
  CHECK(some.labels == bytes{9, 7, 9});
  CHECK(some.inputs.rows() == 4);
  CHECK(some.inputs(3, 0) == scale(255));
  CHECK(some.inputs(1, 1) == scale(1));
  CHECK(some.inputs.col(0) == some.inputs.col(2));
  some.gather(set, std::vector<std::size_t>{}, scale);
  CHECK(some.size() == 0);
}
