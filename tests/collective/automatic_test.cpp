// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0
#include "gradsync/collective/automatic.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <string>
#include <vector>

#include "gradsync/collective/ring.hpp"
#include "gradsync/collective/run.hpp"
#include "gradsync/comm/threads.hpp"
#include "tests/laws/scattered.hpp"

using namespace gradsync;

namespace {

// By the numbers that automatic.hpp gives the candidates on threads.
enum candidate : std::size_t {
  is_native,
  is_direct,
  is_recursive_doubling,
  is_halving_doubling,
  is_tree,
  is_double_tree_4,
  is_double_tree_16
};

series<choice> chosen(const automatic& rule, int size, calibration c) {
  c.size = size;
  return rule.choices<thread_communicator>(c);
}

bool all_are(const series<choice>& all, std::size_t which) {
  return std::all_of(all.begin(), all.end(), [which](const choice& c) { return c.which == which; });
}

// The bits that a rank ends with, when ranks add their numbers by what a collective has for that many bytes.
std::vector<float> mean_of(const collective<thread_communicator>& sum, std::size_t count) {
  auto& comm = sum.communicator();
  const laws::scattered<float> buffer(laws::numbers<float>(count, comm.rank(), count));
  const program& p = sum.steps(count * sizeof(float));
  auto channel = comm.open(1);
  cursor at{.place = channel.post(p, {.buffer = buffer.view(), .scale = 1, .weight = 1.5})};
  run(p, channel, at, comm.limit());
  channel.drain(p, at.place, comm.limit());
  return buffer.values();
}

constexpr calibration slow_pass{.wire = {.alpha = 1e-6, .beta = 1e-10, .gamma = 2e-11},
                                .pass = gradsync::link{.alpha = 1, .beta = 1, .gamma = 0}};

}  // namespace

TEST_CASE("sizes are powers of two from 256 bytes to 1 GiB") {
  const auto all = chosen(automatic{}, 4, slow_pass);
  REQUIRE(all.size() == 23);
  for (std::size_t i = 0; i < all.size(); ++i) CHECK(all[i].up_to == std::size_t{256} << i);
}

TEST_CASE("a cheap fused pass is chosen for everything, at what was measured for it") {
  const calibration c{.wire = {.alpha = 1e-6, .beta = 1e-10, .gamma = 2e-11},
                      .pass = gradsync::link{.alpha = 1e-6, .beta = 1e-10, .gamma = 0}};
  for (const bool any : {false, true})
    for (const int size : {2, 3, 8, 16}) {
      const auto all = chosen(automatic{.any_order = any}, size, c);
      CHECK(all_are(all, is_native));
      for (const choice& each : all) CHECK(each.seconds == doctest::Approx(1e-6 + static_cast<double>(each.up_to) * 1e-10));
    }
}

TEST_CASE("without a cheap fused pass the candidate of the least cost is chosen, or one that costs hardly more") {
  for (const bool any : {false, true})
    for (const int size : {2, 3, 5, 6, 8, 13, 16, 25, 63}) {
      INFO("ranks: " << size << ", any order: " << any);
      for (const choice& each : chosen(automatic{.any_order = any}, size, slow_pass)) {
        const auto costs = [&](const auto& strategy) { return cost(strategy, slow_pass.wire, size, static_cast<double>(each.up_to)); };
        const double all[] = {1e9,
                              costs(direct{}),
                              costs(recursive_doubling{}),
                              costs(halving_doubling{}),
                              costs(tree{1}),
                              costs(double_tree{4}),
                              costs(double_tree{16})};
        CHECK(each.seconds == doctest::Approx(all[each.which]));
        const int allowed = any || size == 2 ? 7 : int{is_double_tree_4};
        CHECK(static_cast<int>(each.which) < allowed);
        CHECK(0.9 * 0.9 * 0.9 * each.seconds <= *std::min_element(all + 0, all + allowed));
      }
    }
}

TEST_CASE("short buffers want few messages, long ones few bytes, and any order allows a double tree in between") {
  const auto all = chosen(automatic{}, 16, slow_pass);
  CHECK(all.front().which == is_recursive_doubling);
  CHECK(all.back().which == is_direct);
  CHECK(std::any_of(all.begin(), all.end(), [](const choice& c) { return c.which == is_halving_doubling; }));
  CHECK(chosen(automatic{}, 33, slow_pass).front().which == is_tree);
  const auto any = chosen(automatic{.any_order = true}, 33, slow_pass);
  CHECK(std::any_of(any.begin(), any.end(), [](const choice& c) { return c.which == is_double_tree_4; }));
  // The fused pass can be the choice for some sizes only.
  const calibration late_pass{.wire = {.alpha = 1e-6, .beta = 1e-9, .gamma = 2e-11},
                              .pass = gradsync::link{.alpha = 1e-4, .beta = 1e-10, .gamma = 0}};
  const auto late = chosen(automatic{}, 8, late_pass);
  CHECK(late.front().which != is_native);
  CHECK(late.back().which == is_native);
}

TEST_CASE("what was timed corrects the model at its size, in proportion between two sizes, and beyond the last one") {
  const calibration wire{.size = 4, .wire = {.alpha = 1e-6, .beta = 1e-10, .gamma = 2e-11}};
  const automatic rule{.transport_pass = false};
  const auto modelled = [&](const auto& s, int k) { return cost(s, wire.wire, 4, static_cast<double>(std::size_t{1} << k)); };
  // Direct takes twice as long as its model at 4 KiB, and four times as long at 64 KiB; nothing else was worth the time.
  series<timed_candidates> timed;
  for (const int k : {12, 16}) {
    timed.push_back({.log2_bytes = k, .seconds = series<double>(7)});
    timed.back().seconds[is_direct] = modelled(direct{}, k) * (k == 12 ? 2 : 4);
  }
  for (const choice& each : rule.choices<thread_communicator>(wire, timed)) {
    CHECK(each.which == is_direct);
    const int k = std::countr_zero(each.up_to);
    CHECK(each.seconds == doctest::Approx(modelled(direct{}, k) * (k <= 12 ? 2 : k >= 16 ? 4 : 2 + (k - 12) / 2.0)));
  }
  // A tree that is faster than its model at 4 KiB, by more than it seemed worse, is taken there.
  timed[0].seconds[is_tree] = modelled(direct{}, 12);
  timed[1].seconds[is_tree] = 5 * modelled(direct{}, 16);
  const auto best = rule.choices<thread_communicator>(wire, timed);
  CHECK(best.front().which == is_tree);
  CHECK(best[12 - 8].which == is_tree);
  CHECK(best[12 - 8].seconds == doctest::Approx(modelled(direct{}, 12)));
  CHECK(best[16 - 8].which == is_direct);
}

TEST_CASE("the pass of a transport can be left out") {
  for (const choice& each : chosen(automatic{.transport_pass = false}, 3, {.pass = gradsync::link{.alpha = 0, .beta = 0, .gamma = 0}}))
    CHECK(each.which != is_native);
  thread_group(3).run([](auto& comm) {
    const collective sum{comm, automatic{.transport_pass = false}};
    for (const proved_program& p : sum.programs()) CHECK(p.steps.name != "native");
  });
}

TEST_CASE("what is no candidate would not be chosen: a ring costs what direct costs, segments make no tree worthwhile") {
  for (int size = 2; size <= 70; ++size)
    for (const double alpha : {1e-7, 1e-5})
      for (const choice& each :
           chosen(automatic{}, size,
                  {.wire = {.alpha = alpha, .beta = 1e-10, .gamma = 2e-11}, .pass = gradsync::link{.alpha = 1e9, .beta = 1, .gamma = 0}})) {
        const gradsync::link wire{.alpha = alpha, .beta = 1e-10, .gamma = 2e-11};
        const double bytes = static_cast<double>(each.up_to);
        CHECK(cost(ring{}, wire, size, bytes) == doctest::Approx(cost(direct{}, wire, size, bytes)));
        for (const int segments : {2, 4, 16}) CHECK(cost(tree{.segments = segments}, wire, size, bytes) >= 0.9 * each.seconds);
      }
}

TEST_CASE("every rank has the same choices, all proved, and canonical unless any order is welcome") {
  for (int size = 1; size <= 5; ++size)
    thread_group(size).run([](auto& comm) {
      const collective sum{comm, automatic{}}, any{comm, automatic{.any_order = true}};
      CHECK(sum.name() == "automatic");
      CHECK(sum.reproducibility() == level::canonical);
      for (const auto* each : {&sum, &any}) {
        std::string rank0 = summary(*each);
        rank0.resize(comm.broadcast(rank0.size()));
        comm.broadcast(std::span<char>(rank0.data(), rank0.size()));
        CHECK(summary(*each) == rank0);
        CHECK(each->choices().size() == 23);
        for (const choice& c : each->choices())
          CHECK(comm.all_reduce(c.seconds, reduce_op::min) == comm.all_reduce(c.seconds, reduce_op::max));
        for (const proved_program& p : each->programs()) {
          CHECK(p.steps.rank == comm.rank());
          CHECK(p.steps.size == comm.size());
        }
      }
    });
}

TEST_CASE("automatic gives the bits of tree and of native, whatever it chooses") {
  for (int size = 2; size <= 5; ++size)
    thread_group(size).run([](auto& comm) {
      const collective sum{comm, automatic{}}, by_tree{comm, tree{}}, by_native{comm};
      for (const std::size_t count : {1u, 60u, 65u, 1000u, 5000u, 70'001u}) {
        const auto expected = mean_of(by_native, count);
        CHECK(laws::same_bits(mean_of(sum, count), expected));
        CHECK(laws::same_bits(mean_of(by_tree, count), expected));
      }
    });
}

TEST_CASE("ranks that differ in an option are told so") {
  thread_group(3).run([](auto& comm) {
    const std::string message = "gradsync[rank " + std::to_string(comm.rank()) +
                                "]: the options of automatic are not the same on all ranks; give every rank the same";
    CHECK_THROWS_WITH_AS((collective{comm, automatic{.any_order = comm.rank() == 1}}), message.c_str(), mismatch_error);
  });
}
