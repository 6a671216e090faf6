// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0
#include "gradsync/core/aligned_bytes.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

using namespace gradsync;

TEST_CASE("memory begins on a cache line and is zero, also where other bytes were before") {
  bool aligned = true, zero = true;
  for (int repeat = 0; repeat < 3; ++repeat) {
    std::vector<aligned_bytes> all;
    for (const std::size_t size : {1u, 3u, 64u, 65u, 1000u, 100'000u}) {
      all.emplace_back(size);
      CHECK(all.back().size() == size);
      aligned = aligned && reinterpret_cast<std::uintptr_t>(all.back().data()) % 64 == 0;
      for (std::size_t i = 0; i < size; ++i) zero = zero && all.back().data()[i] == std::byte{};
      std::memset(all.back().data(), 0xFF, size);
    }
  }
  CHECK(aligned);
  CHECK(zero);
}

TEST_CASE("nothing is held where nothing is asked for") {
  CHECK(aligned_bytes{}.data() == nullptr);
  CHECK(aligned_bytes{}.size() == 0);
  CHECK(aligned_bytes(0).data() == nullptr);
}

TEST_CASE("memory moves with its owner and stays where it is") {
  aligned_bytes a(128);
  std::byte* const data = a.data();
  const aligned_bytes b = std::move(a);
  CHECK(b.data() == data);
  CHECK(b.size() == 128);
}

TEST_CASE("memory of another kind is given back as its owner wants, once") {
  int given_back = 0;
  alignas(64) std::byte there[128] = {};
  {
    aligned_bytes memory(std::shared_ptr<std::byte>(there, [&](std::byte*) { ++given_back; }), sizeof there);
    CHECK((memory.data() == there && memory.size() == 128));
    aligned_bytes moved = std::move(memory);
    CHECK((moved.data() == there && moved.size() == 128));
    CHECK((memory.data() == nullptr && memory.size() == 0));
    CHECK(given_back == 0);
    moved = aligned_bytes(64);
    CHECK(given_back == 1);
  }
  CHECK(given_back == 1);
}
