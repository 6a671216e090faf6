// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0
#include "gradsync/collective/calibrate.hpp"

#include <doctest/doctest.h>

#include <stdexcept>
#include <vector>

#include "gradsync/collective/ring.hpp"
#include "gradsync/comm/threads.hpp"
#include "tests/laws/strategy_laws.hpp"

using namespace gradsync;

namespace {

// The threads' channel without its fused pass, and a communicator that opens such ones.
struct plain_channel {
  using stream_type = thread_channel::stream_type;
  thread_channel inside;
  int& exchanges;

  ticket post(const program& p, const contribution& c) { return inside.post(p, c); }
  bool exchange(const program& p, const ticket& t, int round, std::uint32_t piece, const deadline& until) {
    ++exchanges;
    return inside.exchange(p, t, round, piece, until);
  }
  bool drain(const program& p, const ticket& t, const deadline& until) { return inside.drain(p, t, until); }
  double total_weight(const ticket& t) { return inside.total_weight(t); }
  double total(const ticket& t) { return inside.total(t); }
  stream_type& stream() { return inside.stream(); }
  void leave() { inside.leave(); }
  std::size_t scratch_bytes() const { return inside.scratch_bytes(); }
};

struct plain_communicator {
  static constexpr memory_space space = memory_space::host;
  thread_communicator& inside;
  int& exchanges;

  int rank() const { return inside.rank(); }
  int size() const { return inside.size(); }
  plain_channel open(std::size_t slots) { return {inside.open(slots), exchanges}; }
  deadline limit() const { return inside.limit(); }
  void fail(std::exception_ptr cause) { inside.fail(cause); }
  void abandon(std::exception_ptr cause) { inside.abandon(cause); }
  template <class T>
  T all_reduce(T value, reduce_op op = reduce_op::sum) {
    return inside.all_reduce(value, op);
  }
  template <class T>
  T broadcast(T value, int root = 0) {
    return inside.broadcast(value, root);
  }
  void barrier() { inside.barrier(); }
  aligned_bytes allocate(std::size_t bytes) const { return inside.allocate(bytes); }
  auto compute_stream() const { return inside.compute_stream(); }
};

std::vector<double> figures(const calibration& c) {
  std::vector<double> all{c.wire.alpha, c.wire.beta, c.wire.gamma};
  if (c.pass) all.insert(all.end(), {c.pass->alpha, c.pass->beta, c.pass->gamma});
  return all;
}

}  // namespace

TEST_CASE("all ranks get the same figures, and none is negative") {
  for (const int size : {2, 3, 4}) {
    std::vector<calibration> got(static_cast<std::size_t>(size));
    thread_group(size).run([&](thread_communicator& comm) { got[static_cast<std::size_t>(comm.rank())] = calibrate(comm); });
    for (const calibration& c : got) {
      CHECK(c.size == size);
      CHECK(c.pass.has_value());
      CHECK(figures(c) == figures(got[0]));
    }
    for (const double figure : figures(got[0])) CHECK(figure >= 0);
    CHECK(got[0].wire.alpha > 0);
    CHECK(got[0].pass->alpha > 0);
  }
}

TEST_CASE("the communicator is as good as before, also for a second calibration") {
  thread_group(3).run([](thread_communicator& comm) {
    for (int again = 0; again < 2; ++again) {
      calibrate(comm);
      CHECK(comm.all_reduce(comm.rank()) == 3);
    }
  });
}

TEST_CASE("a stopwatch runs every round of the program, and no more of its buffer than it is told") {
  thread_group(3).run([](thread_communicator& comm) {
    int exchanges = 0;
    plain_communicator plain{comm, exchanges};
    stopwatch watch{plain, 1000 * sizeof(float)};
    const program steps = compile(ring{}, comm.rank(), comm.size());
    for (const std::size_t count : {1000u, 10u, 0u}) {
      exchanges = 0;
      CHECK(watch.time(steps, count * sizeof(float)) > 0);
      CHECK(exchanges == steps.rounds());
    }
    CHECK_THROWS_WITH_AS(watch.time(steps, 5000), "gradsync: the buffer of this stopwatch has 4000 bytes, not 5000", usage_error);
    CHECK(comm.all_reduce(1) == 3);  // nothing was begun
  });
}

TEST_CASE("one rank has no link") {
  thread_group(1).run([](thread_communicator& comm) {
    const calibration c = calibrate(comm);
    CHECK(figures(c) == std::vector<double>{0, 0, 0});
    CHECK(c.seconds(ring{}, 1e9) == 0);
    CHECK(c.seconds(native{}, 1e9) == 0);
  });
}

TEST_CASE("where the transport has no pass of its own, a fused strategy costs what its rounds do") {
  thread_group(2).run([](thread_communicator& comm) {
    int exchanges = 0;
    plain_communicator plain{comm, exchanges};
    const calibration c = calibrate(plain);
    CHECK_FALSE(c.pass.has_value());
    CHECK(c.wire.alpha > 0);
    CHECK(exchanges > 0);
    CHECK(c.seconds(native{}, 1e6) == cost(native{}, c.wire, 2, 1e6));
  });
}

TEST_CASE("seconds are those of the link, and of the pass for what is fused") {
  const calibration c{.size = 4, .wire = {.alpha = 1, .beta = 2, .gamma = 4}, .pass = gradsync::link{.alpha = 100, .beta = 10, .gamma = 0}};
  CHECK(c.seconds(ring{}, 8) == cost(ring{}, c.wire, 4, 8));
  CHECK(c.seconds(native{}, 8) == 180);
}

TEST_CASE("times that lie on lines give those lines, whatever a disturbed run says") {
  const double start = 3e-6, byte = 1e-10, added = 2e-11, bytes = 1e6;
  detail::calibration_times times;
  for (const double disturbance : {0.0, 0.0, 50.0}) {
    times.small.push_back(6 * start + disturbance);
    times.copies.push_back(6 * (start + bytes * byte) + disturbance);
    times.adds.push_back(6 * (start + bytes * byte) + 3 * bytes * added + disturbance);
    times.small_pass.push_back(5e-6 + disturbance);
    times.large_pass.push_back(5e-6 + 3 * bytes * 7e-11 + disturbance);
  }
  const calibration c = times.fit(4, 6, 3, bytes);
  CHECK(c.size == 4);
  CHECK(c.wire.alpha == doctest::Approx(start));
  CHECK(c.wire.beta == doctest::Approx(byte));
  CHECK(c.wire.gamma == doctest::Approx(added));
  REQUIRE(c.pass.has_value());
  CHECK(c.pass->alpha == doctest::Approx(5e-6));
  CHECK(c.pass->beta == doctest::Approx(7e-11));
}

TEST_CASE("additions that cost nothing beside the copy have no negative price") {
  detail::calibration_times times{.small = {6e-6}, .copies = {1e-3}, .adds = {0.9e-3}, .small_pass = {}, .large_pass = {}};
  const calibration c = times.fit(2, 6, 3, 1e6);
  CHECK(c.wire.gamma == 0);
  CHECK_FALSE(c.pass.has_value());
}

TEST_CASE("around the circle every message meets its other end, nothing is written while it is sent, and nothing divided") {
  for (int size = 2; size <= 9; ++size)
    for (const int adds : {0, 3}) {
      const auto programs = laws::compile_all(detail::neighbours{.adds = adds}, size);
      CHECK(laws::messages_match(programs));
      for (const program& p : programs) {
        CHECK(p.rounds() == 6);
        for (int k = 0; k < p.rounds(); ++k) {
          REQUIRE(p.round(k).size() == 2);
          const operation &sent = p.round(k)[0], &got = p.round(k)[1];
          CHECK(sent.first != got.first);
          CHECK(got.what == (k < adds ? operation::kind::add : operation::kind::copy));
          CHECK_FALSE(got.divides);
        }
      }
    }
}

TEST_CASE("a rank that fails meanwhile ends the calibration of all") {
  const auto one_fails = [](thread_communicator& comm) {
    if (comm.rank() == 1) throw std::runtime_error("no time for that");
    CHECK_THROWS_AS(calibrate(comm), transport_error);
  };
  CHECK_THROWS_WITH_AS(thread_group(3).run(one_fails), "no time for that", std::runtime_error);
}
