// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

// What a synchronizer makes of processes: the same bits as of threads, and those of one rank that has the whole batch.
#include <doctest/doctest.h>

#include <bit>
#include <cstdint>
#include <vector>

#include "gradsync/collective/halving_doubling.hpp"
#include "gradsync/collective/ring.hpp"
#include "gradsync/collective/tree.hpp"
#include "gradsync/comm/threads.hpp"
#include "gradsync/synchronizer.hpp"
#include "tests/mpi/processes.hpp"
#include "tests/sync/models.hpp"

using namespace gradsync;
using laws::processes;

namespace {

struct training {
  const char* strategy = "native";
  gradsync::layout layout = layout::automatic;
  gradsync::progress progress = progress::at_marks;
  int leaves = 8;  // micro-batches of an update, which the ranks share
  bool weighted = false;
};

template <class Comm>
collective<Comm> strategy_of(const training& t, Comm& comm) {
  const std::string name = t.strategy;
  if (name == "ring") return {comm, ring{}};
  if (name == "tree") return {comm, tree{.segments = 3}};
  if (name == "halving_doubling") return {comm, halving_doubling{}};
  return collective<Comm>{comm};
}

// The bits of all values after three updates.
template <class Comm>
std::uint64_t train(const training& t, Comm& comm) {
  const std::vector<std::size_t> counts = {100'000, 3, 17'001, 1};
  test::layers net = test::make_layers(counts);
  for (test::param& p : net.layer) p.value.assign(p.value.size(), static_cast<float>(comm.rank()) + 0.1f), p.grad = p.value;
  synchronizer sync{net, strategy_of(t, comm), {.bucket_bytes = 60'000, .layout = t.layout, .progress = t.progress}};
  const int first = t.leaves * comm.rank() / comm.size(), last = t.leaves * (comm.rank() + 1) / comm.size();
  for (int update = 0; update < 3; ++update) {
    if (first == last) sync.contribute_nothing();
    for (int leaf = first; leaf < last; ++leaf) {
      sync.begin({.weight = t.weighted ? 1 + leaf % 3 : 1, .micro_step = leaf + 1 < last ? micro_step::more : micro_step::last});
      for (std::size_t i = counts.size(); i-- > 0;) {
        net.layer[i].grad = test::random_floats(static_cast<std::uint64_t>(1000 * update + 10 * leaf) + i, counts[i]);
        sync.mark_ready(net.layer[i]);
      }
      sync.finish();
    }
    for (test::param& p : net.layer)
      for (std::size_t i = 0; i < p.value.size(); ++i) p.value[i] -= p.grad[i];
  }
  std::uint64_t hash = 0;
  for (const test::param& p : net.layer)
    for (const float x : p.value) hash = (hash ^ std::bit_cast<std::uint32_t>(x)) * 0x100000001b3;
  return hash;
}

std::uint64_t over_processes(const training& t) {
  std::uint64_t hash = 0;
  processes().run([&](auto& comm) {
    hash = train(t, comm);
    CHECK(laws::agreed(comm, hash));
  });
  return hash;
}

std::uint64_t over_threads(const training& t, int ranks) {
  std::uint64_t hash = 0;
  thread_group(ranks).run([&](auto& comm) {
    const std::uint64_t mine = train(t, comm);
    if (comm.rank() == 0) hash = mine;
  });
  return hash;
}

}  // namespace

TEST_CASE("processes give the bits of threads, with every kind of strategy, weights and ranks without data") {
  const int size = processes().size();
  for (const char* strategy : {"native", "ring", "tree", "halving_doubling"})
    for (const bool weighted : {false, true}) {
      const training t{.strategy = strategy, .leaves = weighted ? size - 1 : 2 * size, .weighted = weighted};
      INFO(strategy, " on ", size, " ranks");
      CHECK(over_processes(t) ==
            over_threads({.strategy = t.strategy, .layout = layout::packed, .leaves = t.leaves, .weighted = t.weighted}, size));
    }
}

TEST_CASE("a power of two of processes gives the bits of one rank with the whole batch") {
  const int size = processes().size();
  if (!std::has_single_bit(static_cast<unsigned>(size))) return;
  CHECK(over_processes({}) == over_threads({}, 1));
}

TEST_CASE("neither the layout nor who drives the messages changes a bit") {
  const std::uint64_t right = over_processes({});
  CHECK(over_processes({.layout = layout::packed}) == right);
  CHECK(over_processes({.layout = layout::in_place}) == right);
  CHECK(over_processes({.progress = progress::thread}) == right);
}
