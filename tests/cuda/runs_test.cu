// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0
#include "gradsync/cuda/runs.hpp"

#include <doctest/doctest.h>

#include <vector>

#include "gradsync/cuda/kernels.hpp"

using namespace gradsync;
using namespace gradsync::detail;

namespace {

using body = copy_body<std::uint32_t>;
constexpr std::size_t length = tile_length<body>;

alignas(16) std::byte memory[64];

// Views that begin so many bytes behind a border of 16.
run_list list_of(std::size_t n, std::size_t to, std::size_t from) {
  run_list list{};
  list.views = 2;
  std::byte* const at[] = {memory + to, memory + from};
  list.push<body>(at, n);
  return list;
}

}  // namespace

TEST_CASE("tiles cover each run once, without gaps, and know from where on all views are at a border of 16 bytes") {
  for (const std::size_t n : {std::size_t{1}, std::size_t{3}, length - 1, length, length + 1, 5 * length + 7})
    for (const std::size_t off : {0u, 4u, 8u, 12u}) {
      const run_list list = list_of(n, off, off);
      const std::size_t head = (16 - off) % 16 / 4;
      std::size_t next = 0;
      for (std::uint32_t block = 0; block < list.blocks(); ++block) {
        const run_tile t = list.tile_of(block, length);
        CHECK(t.run == 0);
        CHECK(t.begin == next);
        CHECK(t.end > t.begin);
        CHECK(t.wide == (block > 0 ? t.begin : std::min(head, n)));
        next = t.end;
      }
      CHECK(next == n);
    }
}

TEST_CASE("views that never come to a border together are accessed one by one") {
  const run_list list = list_of(3 * length, 4, 8);
  for (std::uint32_t block = 0; block < list.blocks(); ++block) {
    const run_tile t = list.tile_of(block, length);
    CHECK(t.wide == t.end);
  }
}

TEST_CASE("a block finds the run that its tile belongs to") {
  run_list list{};
  list.views = 2;
  std::byte* const at[] = {memory, memory + 16};
  std::vector<int> run_of_block;
  while (list.has_room()) {
    const std::size_t tiles = 1 + static_cast<std::size_t>(list.runs) % 3;
    run_of_block.insert(run_of_block.end(), tiles, list.runs);
    list.push<body>(at, tiles * length);
  }
  CHECK(list.runs == most_runs);
  CHECK(list.blocks() == run_of_block.size());
  for (std::uint32_t block = 0; block < list.blocks(); ++block) CHECK(list.tile_of(block, length).run == run_of_block[block]);
  CHECK(list.pointer(most_runs - 1, 1) == memory + 16);
}

TEST_CASE("many views leave room for fewer runs") {
  run_list list{};
  list.views = 65;
  std::vector<std::byte*> at(65, memory);
  while (list.has_room()) list.push<copy_body<std::uint32_t>>(at.data(), 1);
  CHECK(list.runs == most_pointers / 65);
}
