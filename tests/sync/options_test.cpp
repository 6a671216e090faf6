// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

#include "gradsync/sync/options.hpp"

#include <doctest/doctest.h>

using namespace gradsync;

TEST_CASE("by default buckets are as PyTorch's, sums a tree, and layout and progress are chosen") {
  const synchronizer_options options;
  CHECK(options.bucket_bytes == 25 * 1024 * 1024);
  CHECK(options.first_bucket_bytes == 1024 * 1024);
  CHECK(options.layout == layout::automatic);
  CHECK(options.progress == progress::automatic);
  CHECK(options.accumulation == accumulation_mode::tree);
  CHECK(options.replan == replan::automatic);
  CHECK(options.recorder == nullptr);
}

TEST_CASE("what ranks have to share is told in words; progress and recorder are each rank's own") {
  synchronizer_options options{
      .bucket_bytes = 7, .layout = layout::packed, .accumulation = accumulation_mode::plain, .replan = replan::never};
  const auto words = shared_options(options);
  CHECK(
      words ==
      decltype(words){
          {"bucket_bytes", "7"}, {"first_bucket_bytes", "1048576"}, {"layout", "packed"}, {"accumulation", "plain"}, {"replan", "never"}});
  options.progress = progress::thread;
  CHECK(shared_options(options) == words);
  CHECK(std::string(name_of(replan::automatic)) + name_of(replan::once) + name_of(accumulation_mode::tree) == "automaticoncetree");
}

TEST_CASE("what automatic means is decided by what the ranks reach, and by the bits of the strategy") {
  CHECK(decided({}, layout::packed).layout == layout::packed);
  CHECK(decided({.layout = layout::adopted}, layout::packed).layout == layout::adopted);
  CHECK(caps_of({.bucket_bytes = 7, .first_bucket_bytes = 3}).bucket_bytes == 7);
  CHECK(caps_of({.bucket_bytes = 7, .first_bucket_bytes = 3}).first_bucket_bytes == 3);
  CHECK(replans({}, level::uniform));
  CHECK_FALSE(replans({}, level::agreed));
  CHECK(replans({.replan = replan::once}, level::agreed));
  CHECK_FALSE(replans({.replan = replan::never}, level::canonical));
}
