// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

#include "gradsync/data/distributed_sampler.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

namespace {

using gradsync::distributed_sampler;
using batch_of_shards = std::vector<std::vector<std::size_t>>;

// All shards of one batch, gathered from all ranks of a group of `size`.
batch_of_shards gather(std::size_t examples, int size, gradsync::distributed_sampler_options options, std::uint64_t epoch,
                       std::size_t batch) {
  batch_of_shards all(options.shards);
  std::size_t next_shard = 0;
  for (int rank = 0; rank < size; ++rank) {
    distributed_sampler sampler{examples, rank, size, options};
    sampler.set_epoch(epoch);
    const auto mine = sampler.micro_batches(batch);
    for (std::size_t i = 0; i < mine.size(); ++i) {
      CHECK(mine[i].shard == next_shard);
      CHECK(mine[i].last == (i + 1 == mine.size()));
      all[next_shard++].assign(mine[i].indices.begin(), mine[i].indices.end());
    }
  }
  CHECK(next_shard == options.shards);
  return all;
}

std::vector<std::size_t> whole_epoch(std::size_t examples, int size, gradsync::distributed_sampler_options options, std::uint64_t epoch) {
  std::vector<std::size_t> all;
  const std::size_t batches = distributed_sampler(examples, 0, size, options).batches();
  for (std::size_t b = 0; b < batches; ++b)
    for (const auto& shard : gather(examples, size, options, epoch, b)) all.insert(all.end(), shard.begin(), shard.end());
  return all;
}

}  // namespace

TEST_CASE("an epoch deals out every example exactly once, also where nothing divides") {
  for (int size : {1, 2, 3, 5, 9})
    for (std::size_t examples : {1u, 2u, 63u, 64u, 65u, 131u})
      for (std::size_t shards : {1u, 3u, 8u}) {
        auto all = whole_epoch(examples, size, {.batch = 32, .shards = shards, .seed = 4}, 2);
        REQUIRE(all.size() == examples);
        std::sort(all.begin(), all.end());
        for (std::size_t i = 0; i < examples; ++i) REQUIRE(all[i] == i);
      }
}

TEST_CASE("the shards of a batch are the same for every number of ranks, and their borders depend on batch and shards alone") {
  const gradsync::distributed_sampler_options options{.batch = 29, .shards = 8, .seed = 7};
  for (std::size_t b : {0u, 3u}) {  // batch 3 is the last one, of 13 examples
    const auto one = gather(100, 1, options, 1, b);
    const std::size_t count = b == 3 ? 13 : 29;
    for (std::size_t s = 0; s < 8; ++s) CHECK(one[s].size() == (s + 1) * count / 8 - s * count / 8);
    for (int size : {2, 3, 4, 7, 8, 11}) CHECK(gather(100, size, options, 1, b) == one);
  }
}

TEST_CASE("a rank takes a contiguous share of the shards; with more ranks than shards some have none") {
  distributed_sampler second{64, 1, 3, {.batch = 64, .shards = 8}};
  std::vector<std::size_t> shards;
  for (const auto& micro : second.micro_batches(0)) shards.push_back(micro.shard);
  CHECK(shards == std::vector<std::size_t>{2, 3, 4});
  std::size_t idle = 0;
  for (int rank = 0; rank < 5; ++rank) idle += distributed_sampler(64, rank, 5, {.batch = 64, .shards = 2}).micro_batches(0).empty();
  CHECK(idle == 3);
}

TEST_CASE("a batch smaller than its shards has empty shards, which are dealt out all the same") {
  distributed_sampler sampler{3, 0, 1, {.batch = 8, .shards = 4}};
  CHECK(sampler.batches() == 1);
  const auto mine = sampler.micro_batches(0);
  REQUIRE(mine.size() == 4);
  std::vector<std::size_t> sizes;
  for (const auto& micro : mine) sizes.push_back(micro.indices.size());
  CHECK(sizes == std::vector<std::size_t>{0, 1, 1, 1});
  CHECK(mine[3].last);
}

TEST_CASE("the order depends on seed and epoch, and is the same on every machine") {
  const auto base = whole_epoch(1000, 1, {.seed = 1}, 0);
  CHECK(base == whole_epoch(1000, 1, {.seed = 1}, 0));
  const auto next = whole_epoch(1000, 1, {.seed = 1}, 1), other = whole_epoch(1000, 1, {.seed = 2}, 0);
  const auto zero = whole_epoch(1000, 1, {.seed = 0}, 1);
  for (const auto* different : {&next, &other, &zero}) {
    std::size_t same = 0;
    for (std::size_t i = 0; i < 1000; ++i) same += base[i] == (*different)[i];
    CHECK(same < 10);  // 1 is to be expected of two independent orders
  }
  CHECK(other != zero);
  CHECK(whole_epoch(10, 1, {.seed = 1}, 3) == std::vector<std::size_t>{9, 3, 1, 4, 2, 6, 7, 5, 0, 8});
}

TEST_CASE("every order is about equally likely") {
  std::size_t counts[6] = {};
  for (std::uint64_t epoch = 0; epoch < 6000; ++epoch) {
    distributed_sampler sampler{3, 0, 1, {.batch = 3, .shards = 1, .seed = 5}};
    sampler.set_epoch(epoch);
    const auto order = sampler.micro_batches(0)[0].indices;
    ++counts[2 * order[0] + (order[1] > order[2] ? 1 : 0)];
  }
  for (const std::size_t count : counts) {
    CHECK(count > 880);
    CHECK(count < 1120);
  }
}

TEST_CASE("training resumes exactly where it was stopped") {
  const gradsync::distributed_sampler_options options{.batch = 16, .shards = 4, .seed = 9};
  const auto run = [&](distributed_sampler& sampler, std::size_t stop_after) {
    std::vector<std::size_t> seen;
    for (std::size_t done = 0; sampler.position().epoch < 3; sampler.set_epoch(sampler.position().epoch + 1))
      for (std::size_t b = sampler.position().batch; b < sampler.batches(); ++b) {
        for (const auto& micro : sampler.micro_batches(b)) seen.insert(seen.end(), micro.indices.begin(), micro.indices.end());
        if (++done == stop_after) return seen;
      }
    return seen;
  };
  distributed_sampler straight{70, 1, 2, options};
  const auto all = run(straight, 1000);
  for (std::size_t stop = 1; stop <= 15; ++stop) {
    distributed_sampler before{70, 1, 2, options}, after{70, 1, 2, options};
    auto seen = run(before, stop);
    after.resume(before.position());
    CHECK(after.position() == before.position());
    const auto rest = run(after, 1000);
    seen.insert(seen.end(), rest.begin(), rest.end());
    CHECK(seen == all);
  }
}

TEST_CASE("the generator is SplitMix64, and numbers below a bound are even") {
  gradsync::detail::splitmix64 random{1234567};
  CHECK(random() == 6457827717110365317u);  // published values for this seed
  CHECK(random() == 3203168211198807973u);
  CHECK(random() == 9817491932198370423u);
  std::size_t counts[3] = {};
  for (int i = 0; i < 3000; ++i) ++counts[random.below(3)];
  for (const std::size_t count : counts) CHECK((count > 900 && count < 1100));
  CHECK(random.below(1) == 0);
}

TEST_CASE("what cannot be dealt out is an error that says why") {
  using gradsync::usage_error;
  CHECK_THROWS_WITH_AS((distributed_sampler{0, 0, 1}), "gradsync: the sampler has no examples to deal out", usage_error);
  CHECK_THROWS_WITH_AS((distributed_sampler{9, 0, 1, {.batch = 0}}), "gradsync: batch is 0; a batch has at least one example", usage_error);
  CHECK_THROWS_WITH_AS((distributed_sampler{9, 0, 1, {.shards = 0}}), "gradsync: shards is 0; a batch has at least one shard", usage_error);
  CHECK_THROWS_WITH_AS((distributed_sampler{9, 2, 2}), "gradsync: the sampler was given rank 2 of 2; ranks count from 0", usage_error);
  CHECK_THROWS_AS((distributed_sampler{9, -1, 2}), usage_error);
  CHECK_THROWS_AS((distributed_sampler{9, 0, 0}), usage_error);
  distributed_sampler sampler{9, 0, 1, {.batch = 4}};
  CHECK(sampler.batches() == 3);
  CHECK_THROWS_AS(sampler.micro_batches(3), usage_error);
  CHECK_THROWS_AS(sampler.resume({.epoch = 0, .batch = 4}), usage_error);
}
