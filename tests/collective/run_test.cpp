// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0
#include "gradsync/collective/run.hpp"

#include <doctest/doctest.h>

#include <stdexcept>
#include <utility>
#include <vector>

#include "gradsync/comm/threads.hpp"
#include "tests/laws/transport_laws.hpp"

using namespace gradsync;

namespace {

// Writes down what it is asked for, and is not ready whenever `ready` says so.
struct notebook {
  using stream_type = host_stream;
  std::vector<std::pair<int, std::uint32_t>> done;
  int asked = 0, ready_until = 1 << 30;

  ticket post(const program&, const contribution&) { return {}; }
  bool exchange(const program&, const ticket& t, int round, std::uint32_t piece, const deadline& until) {
    CHECK(t.sequence == 7);
    ++asked;
    if (static_cast<int>(done.size()) == ready_until) {
      if (!until.polling()) throw timeout_error("late");
      return false;
    }
    done.push_back({round, piece});
    return true;
  }
  bool drain(const program&, const ticket&, const deadline&) { return true; }
  double total_weight(const ticket&) { return 1; }
  double total(const ticket&) { return 1; }
  host_stream& stream() { return on; }
  void leave() {}
  std::size_t scratch_bytes() const { return 0; }

  host_stream on;
};

struct notebook_with_pass : notebook {
  static constexpr bool fused_is_weighted = true;
  int reduced = 0;
  bool reduce(const ticket& t, const deadline&) {
    CHECK(t.sequence == 7);
    return ++reduced > 2;
  }
};

program of_rounds(int rounds) {
  program p;
  p.size = 2;
  for (int k = 0; k < rounds; ++k) p.round_begin.push_back(0);
  return p;
}

using steps = std::vector<std::pair<int, std::uint32_t>>;

}  // namespace

TEST_CASE("threads give the mean by every strategy") {
  laws::mean_laws([](int size, auto body) { thread_group(size).run(body); });
}

TEST_CASE("all pieces of a round go before the next round") {
  notebook channel;
  cursor at{.place = {.sequence = 7, .base = 0, .pieces = 3}};
  CHECK(run(of_rounds(2), channel, at, deadline::never()));
  CHECK(channel.done == steps{{0, 0}, {0, 1}, {0, 2}, {1, 0}, {1, 1}, {1, 2}});
  CHECK(channel.asked == 6);
  CHECK(run(of_rounds(2), channel, at, deadline::never()));  // nothing is done twice
  CHECK(channel.asked == 6);
}

TEST_CASE("a run stops where a peer is not ready, and goes on there") {
  for (int stop = 0; stop < 6; ++stop) {
    notebook channel;
    channel.ready_until = stop;
    cursor at{.place = {.sequence = 7, .base = 0, .pieces = 3}};
    for (int again = 0; again < 3; ++again) {
      CHECK_FALSE(run(of_rounds(2), channel, at, deadline::poll()));
      CHECK(at.round == stop / 3);
      CHECK(at.piece == static_cast<std::uint32_t>(stop % 3));
      CHECK(channel.asked == stop + 1 + again);
    }
    CHECK_THROWS_AS(run(of_rounds(2), channel, at, deadline::never()), timeout_error);
    channel.ready_until = 100;
    CHECK(run(of_rounds(2), channel, at, deadline::poll()));
    CHECK(channel.done == steps{{0, 0}, {0, 1}, {0, 2}, {1, 0}, {1, 1}, {1, 2}});
  }
}

TEST_CASE("a program without rounds has nothing to do") {
  notebook channel;
  cursor at{.place = {.sequence = 7}};
  CHECK(run(of_rounds(0), channel, at, deadline::poll()));
  CHECK(channel.asked == 0);
}

TEST_CASE("a fused program needs a transport that has such a pass") {
  notebook channel;
  cursor at;
  program p = of_rounds(2);
  p.fused = true;
  CHECK_THROWS_WITH_AS(run(p, channel, at, deadline::poll()),
                       "gradsync: this transport has no fused all-reduce; choose a strategy of rounds, such as halving_doubling",
                       usage_error);
  CHECK(channel.asked == 0);
}

TEST_CASE("a fused pass is run once, however often one asks") {
  notebook_with_pass channel;
  cursor at{.place = {.sequence = 7}};
  program p = of_rounds(2);
  p.fused = true;
  CHECK_FALSE(run(p, channel, at, deadline::poll()));
  CHECK_FALSE(run(p, channel, at, deadline::poll()));
  CHECK(run(p, channel, at, deadline::poll()));
  CHECK(run(p, channel, at, deadline::poll()));
  CHECK(channel.reduced == 3);
  CHECK(channel.asked == 0);
}
