// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0
#include "gradsync/cuda/collected.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>

#include "gradsync/cuda/device.hpp"
#include "gradsync/cuda/memory.hpp"
#include "tests/cuda_standin/standin.hpp"

using namespace gradsync;
using namespace gradsync::detail;

namespace {

using copy = copy_body<std::uint32_t>;

// 100 places of 8 integers on the device, place k full of k.
struct places {
  static constexpr std::size_t n = 8, count = 100, bytes = n * sizeof(std::uint32_t);
  std::shared_ptr<std::byte> there = device_memory(count * bytes, 0), here = pinned_memory(count * bytes);

  places() {
    standin::seed(1);
    for (std::size_t i = 0; i < count * n; ++i) reinterpret_cast<std::uint32_t*>(here.get())[i] = static_cast<std::uint32_t>(i / n);
    check(cudaMemcpy(there.get(), here.get(), count * bytes, cudaMemcpyHostToDevice), "cudaMemcpy");
  }
  std::byte* at(std::size_t k) const { return there.get() + k * bytes; }
  void add(collected& all, std::size_t to, std::size_t from) const {
    std::byte* const pointers[] = {at(to), at(from)};
    all.add(copy{}, pointers, 2, n, nullptr);
  }
  std::uint32_t of(std::size_t k) const {
    std::uint32_t value = 0;
    check(cudaMemcpy(&value, at(k) + bytes - sizeof value, sizeof value, cudaMemcpyDeviceToHost), "cudaMemcpy");
    return value;
  }
};

std::ptrdiff_t launches() {
  const auto all = standin::executed();
  return std::count_if(all.begin(), all.end(), [](const std::string& s) { return s.find("kernel") != s.npos; });
}

}  // namespace

TEST_CASE("operations that don't touch each other's memory leave in one launch, and nothing leaves by itself") {
  const places p;
  collected all;
  for (std::size_t k = 0; k < 20; ++k) p.add(all, 50 + k, k);
  CHECK(p.of(50) == 50);
  all.flush(nullptr);
  for (std::size_t k = 0; k < 20; ++k) CHECK(p.of(50 + k) == k);
  CHECK(launches() == 1);
  all.flush(nullptr);
  CHECK(launches() == 1);
}

TEST_CASE("one that depends on an earlier one, in either direction, comes after it") {
  const places p;
  collected all;
  p.add(all, 50, 1);
  p.add(all, 51, 50);  // reads what was written
  p.add(all, 1, 2);    // writes what was read, two launches before
  p.add(all, 52, 1);   // reads it again
  p.add(all, 52, 3);   // writes the same place
  all.flush(nullptr);
  CHECK(p.of(51) == 1);
  CHECK(p.of(50) == 1);
  CHECK(p.of(1) == 2);
  CHECK(p.of(52) == 3);
  CHECK(launches() == 4);
}

TEST_CASE("outputs that lie among inputs still leave together where no run meets another") {
  const places p;
  collected all;
  for (std::size_t k = 0; k < 10; ++k) p.add(all, 2 * k, 2 * k + 1);
  all.flush(nullptr);
  for (std::size_t k = 0; k < 10; ++k) CHECK(p.of(2 * k) == 2 * k + 1);
  CHECK(launches() == 1);
}

TEST_CASE("another operation, and one more than a list holds, send off what there is") {
  const places p;
  collected all;
  for (int k = 0; k < most_runs; ++k) p.add(all, 1 + static_cast<std::size_t>(k), 0);
  CHECK(p.of(1) == 1);
  p.add(all, 90, 0);
  CHECK(p.of(most_runs) == 0);
  std::byte* const number[] = {p.at(91)};
  all.add(assign_body(2.5), number, 1, 1, nullptr);
  CHECK(p.of(90) == 0);
  all.flush(nullptr);
  double value = 0;
  check(cudaMemcpy(&value, p.at(91), sizeof value, cudaMemcpyDeviceToHost), "cudaMemcpy");
  CHECK(value == 2.5);
  CHECK(launches() == 3);
}
