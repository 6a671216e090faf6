// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0
#include "gradsync/guard/start.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <string>
#include <vector>

#include "gradsync/collective/ring.hpp"
#include "gradsync/comm/threads.hpp"

using namespace gradsync;

namespace {

struct rank_says {
  std::size_t weight = 4, mean = 2;
  std::string bucket_bytes = "100";
  bool rings = false;
};

void check(thread_communicator& comm, const rank_says& says) {
  series<parameter> parameters(1);
  parameters[0].count = says.weight;
  parameters[0].aliases.push_back({"weight", nullptr, nullptr, nullptr});
  const series<state_entry> states = {{.name = "mean", .type = dtype::float64, .count = says.mean}};
  check_start(says.rings ? collective{comm, ring{}} : collective{comm}, parameters, states, {{"bucket_bytes", says.bucket_bytes}});
}

// What all three ranks are told if rank 1 differs.
void all_are_told(const rank_says& other, const std::string& text) {
  std::atomic<int> told{0};
  CHECK_THROWS_AS(thread_group(3).run([&](thread_communicator& comm) {
    try {
      check(comm, comm.rank() == 1 ? other : rank_says{});
    } catch (const mismatch_error& e) {
      CHECK_MESSAGE(e.what() == text, e.what());
      ++told;
      throw;
    }
  }),
                  mismatch_error);
  CHECK(told == 3);
}

}  // namespace

TEST_CASE("ranks that are alike go on") {
  for (const int size : {1, 3}) thread_group(size).run([](thread_communicator& comm) { check(comm, {}); });
}

TEST_CASE("parameters, states, options and strategy are compared") {
  const std::string same_order = "; build the model in the same order on every rank", same_options = "; give every rank the same options";
  all_are_told({.weight = 5}, "gradsync[rank 1] \"weight\": has 5 elements of float32, rank 0 has 4 elements of float32" + same_order);
  all_are_told({.mean = 3},
               "gradsync[rank 1] \"mean\": has 3 elements of float64 (state), rank 0 has 2 elements of float64 (state)" + same_order);
  all_are_told({.bucket_bytes = "7"}, "gradsync[rank 1]: bucket_bytes is 7, rank 0 has 100" + same_options);
  all_are_told({.rings = true},
               "gradsync[rank 1]: strategy is ring in 4 rounds of 3 chunks, rank 0 has native in 2 rounds of 3 chunks" + same_options);
}

TEST_CASE("what lies on a device is refused by name before its address is followed") {
  thread_group(1).run([](thread_communicator& comm) {
    series<parameter> parameters(1);
    parameters[0].aliases.push_back({"weight", nullptr, nullptr, nullptr});
    series<state_entry> states = {{.name = "mean", .type = dtype::float64, .count = 1}};
    states[0].space = memory_space::cuda;
    CHECK_THROWS_WITH_AS(check_start(collective{comm}, parameters, states, {}),
                         doctest::Contains("\"mean\": its elements lie in the memory of a CUDA device"), usage_error);
    parameters[0].space = memory_space::cuda;
    CHECK_THROWS_WITH_AS(check_start(collective{comm}, parameters, states, {}),
                         doctest::Contains("\"weight\": its elements lie in the memory of a CUDA device"), usage_error);
  });
}
