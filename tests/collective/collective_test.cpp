// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0
#include "gradsync/collective/collective.hpp"

#include <doctest/doctest.h>

#include <utility>
#include <vector>

#include "gradsync/collective/recursive_doubling.hpp"
#include "gradsync/collective/ring.hpp"
#include "gradsync/collective/run.hpp"
#include "gradsync/collective/tree.hpp"
#include "gradsync/comm/threads.hpp"
#include "tests/laws/strategies.hpp"

using namespace gradsync;

namespace {

// A user's strategy: all is added on rank 0, in the order of the tree, and comes back from there. Unless it has a flaw.
struct over_rank_0 {
  enum class flaw { none, forgets_the_last, adds_backwards } what = flaw::none;

  constexpr const char* name() const { return "over_rank_0"; }
  constexpr level claim(int) const { return level::canonical; }
  constexpr int chunks(int) const { return 1; }
  constexpr int rounds(int size) const { return size == 1 ? 0 : 2; }
  template <class Post>
  constexpr void round(int k, int rank, int size, Post&& post) const {
    const auto told = [&](int r) { return what != flaw::forgets_the_last || r < size - 1; };
    if (rank > 0) {
      if (k == 0) post(send{0, 0, 1});
      else if (told(rank)) post(receive{0, 0, 1, effect::copy});
    } else {
      for (int i = 1; i < size; ++i) {
        if (k == 1 && told(i)) post(send{i, 0, 1});
        if (k == 0 && what == flaw::adds_backwards) post(receive{size - i, 0, 1, effect::add});
        else if (k == 0) post(receive{i, 0, 1, effect::join});
      }
    }
  }
};

std::vector<float> summed(const collective<thread_communicator>& sum, std::vector<float> values) {
  auto channel = sum.communicator().open(1);
  const extent all{reinterpret_cast<std::byte*>(values.data()), 0, values.size()};
  cursor at{.place = channel.post(sum.steps(), {.buffer = {dtype::float32, std::span(&all, 1)}, .weight = 1})};
  run(sum.steps(), channel, at, sum.communicator().limit());
  channel.drain(sum.steps(), at.place, sum.communicator().limit());
  return values;
}

}  // namespace

TEST_CASE("a collective is a communicator with this rank's program of a strategy, and what is proved of it") {
  thread_group(4).run([](auto& comm) {
    const collective sum{comm, ring{}};
    CHECK(&sum.communicator() == &comm);
    CHECK(sum.name() == "ring");
    CHECK(sum.steps().rank == comm.rank());
    CHECK(sum.steps().size == 4);
    CHECK(sum.steps().rounds() == 6);
    CHECK(sum.reproducibility() == level::agreed);
    CHECK(collective{comm, tree{.segments = 7}}.reproducibility() == level::canonical);
    CHECK(collective{comm, tree{.segments = 7}}.steps().chunks == 7);
  });
}

TEST_CASE("without a strategy it is the transport's own") {
  thread_group(3).run([](auto& comm) {
    const collective sum{comm};
    CHECK(sum.name() == "native");
    CHECK(sum.steps().fused);
    CHECK(sum.reproducibility() == level::canonical);
  });
}

TEST_CASE("the strategy is no part of the type, so that it can be chosen at run time") {
  thread_group(3).run([](auto& comm) {
    for (const bool round : {false, true}) {
      const auto sum = round ? collective{comm, ring{}} : collective{comm};
      const auto copy = sum;
      CHECK(copy.name() == (round ? "ring" : "native"));
      CHECK(summed(copy, {static_cast<float>(comm.rank()), 3}) == std::vector<float>{1, 3});
    }
  });
}

TEST_CASE("a user's strategy of joins works, without being a pass of the transport's own") {
  thread_group(5).run([](auto& comm) {
    const collective sum{comm, over_rank_0{}};
    CHECK(sum.name() == "over_rank_0");
    CHECK_FALSE(sum.steps().fused);
    CHECK(sum.reproducibility() == level::canonical);
    CHECK(summed(sum, {static_cast<float>(comm.rank()), 3}) == std::vector<float>{2, 3});
  });
}

TEST_CASE("strategies that need scratch get it") {
  thread_group(5).run([](auto& comm) {
    const collective doubling{comm, recursive_doubling{}}, joining{comm, laws::everyone_joins{}};
    CHECK(doubling.reproducibility() == level::canonical);
    CHECK(doubling.steps().scratch_count == 1);
    CHECK(summed(doubling, {static_cast<float>(comm.rank()), 3}) == std::vector<float>{2, 3});
    CHECK(summed(joining, {static_cast<float>(comm.rank()), 3}) == std::vector<float>{2, 3});
  });
}

TEST_CASE("a wrong strategy does not start: the first violation is told in words, on every rank") {
  using flaw = over_rank_0::flaw;
  const std::pair<flaw, const char*> wrong[] = {
      {flaw::forgets_the_last, "after the last round rank 4 does not hold each contribution to chunk 0 exactly once"},
      {flaw::adds_backwards, "its sums are less reproducible than claim() says"},
  };
  thread_group(5).run([&](auto& comm) {
    for (const auto& [what, words] : wrong) {
      const std::string message = "gradsync[rank " + std::to_string(comm.rank()) + "]: strategy over_rank_0 on 5 ranks: " + words;
      CHECK_THROWS_WITH_AS((collective{comm, over_rank_0{what}}), message.c_str(), usage_error);
    }
    CHECK(comm.all_reduce(1) == 5);  // nothing else has happened
  });
}

TEST_CASE("a number of ranks that a strategy refuses is a wrong call, in the strategy's words") {
  struct quartet : ring {
    constexpr const char* refuses(int size) const { return size == 4 ? nullptr : "is for four ranks"; }
  };
  thread_group(3).run([](auto& comm) {
    const std::string message = "gradsync[rank " + std::to_string(comm.rank()) + "]: strategy ring on 3 ranks: is for four ranks";
    CHECK_THROWS_WITH_AS((collective{comm, quartet{}}), message.c_str(), usage_error);
  });
  thread_group(4).run([](auto& comm) { CHECK(collective{comm, quartet{}}.steps().rounds() == 6); });
}

namespace {

// A rule: what it chooses is an option, so that it can also be a wrong one.
struct by_table {
  series<choice> table;

  const char* name() const { return "by_table"; }
  template <transport Communicator>
  repertoire choose(Communicator& comm) const {
    return {.programs = {prove(comm, tree{.segments = 2}), prove(comm, native{}), prove(comm, ring{})}, .choices = table};
  }
};

}  // namespace

TEST_CASE("a rule gives each number of bytes a strategy, on all ranks the same") {
  thread_group(3).run([](auto& comm) {
    const collective sum{comm, by_table{{{.up_to = 100, .which = 0}, {.up_to = 4000, .which = 1}, {.up_to = 8000, .which = 2}}}};
    CHECK(sum.name() == "by_table");
    CHECK(sum.programs().size() == 3);
    const std::pair<std::size_t, const char*> expected[] = {
        {0, "tree"}, {100, "tree"}, {101, "native"}, {4000, "native"}, {4001, "ring"}, {8000, "ring"}, {std::size_t{1} << 40, "ring"}};
    for (const auto& [bytes, name] : expected) {
      CHECK(sum.name(bytes) == name);
      CHECK(sum.steps(bytes).name == name);
      CHECK(sum.steps(bytes).rank == comm.rank());
    }
    CHECK(sum.steps(100).chunks == 2);
    const auto copy = sum;
    CHECK(copy.name(4000) == "native");
    CHECK(&copy.steps(4000) == &copy.steps(200));
  });
}

TEST_CASE("a collective of several strategies is as reproducible as the weakest of them") {
  thread_group(3).run([](auto& comm) {
    CHECK(collective{comm, by_table{{choice{}}}}.reproducibility() == level::agreed);  // the ring is among its programs
    CHECK(collective{comm, tree{}}.reproducibility() == level::canonical);
  });
}

TEST_CASE("a rule that names no program, or none in order, is a wrong call") {
  thread_group(2).run([](auto& comm) {
    const std::string message =
        "gradsync[rank " + std::to_string(comm.rank()) + "]: by_table: choices must name programs that there are, by ascending bytes";
    for (const series<choice>& wrong : {series<choice>{}, {{.which = 3}}, {{.up_to = 8, .which = 0}, {.up_to = 7, .which = 1}}})
      CHECK_THROWS_WITH_AS((collective{comm, by_table{wrong}}), message.c_str(), usage_error);
  });
}

TEST_CASE("a collective's choices as a line for the ranks to compare, and as a table for people") {
  thread_group(2).run([](auto& comm) {
    CHECK(summary(collective{comm, tree{.segments = 3}}) == "tree in 4 rounds of 3 chunks");
    const collective sum{comm, by_table{{{.up_to = 256, .which = 1, .seconds = 2e-6},
                                         {.up_to = 512, .which = 1, .seconds = 3e-6},
                                         {.up_to = 1024, .which = 1, .seconds = 4.44e-6},
                                         {.up_to = 2048, .which = 0, .seconds = 0},
                                         {.up_to = 4096, .which = 1, .seconds = 0.1234567}}}};
    CHECK(summary(sum) ==
          "native in 2 rounds of 2 chunks up to 1024 bytes, then tree in 3 rounds of 2 chunks up to 2048 bytes, then native in 2 rounds of "
          "2 chunks");
    CHECK(describe(sum) ==
          "by_table on 2 ranks: canonical\n"
          " up to bytes  predicted us  rounds  chunks  strategy\n"
          "         256           2.0       2       2  native\n"
          "        1024           4.4       2       2  native\n"
          "        2048             -       3       2  tree\n"
          "        more      123456.7       2       2  native\n");
  });
}

TEST_CASE("one rank needs no rounds") {
  thread_group(1).run([](auto& comm) {
    CHECK(collective{comm, ring{}}.steps().rounds() == 0);
    CHECK(collective{comm}.reproducibility() == level::canonical);
  });
}
