// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0
#include "gradsync/comm/thread_channel.hpp"

#include <doctest/doctest.h>

#include <deque>
#include <random>
#include <stdexcept>

#include "gradsync/comm/threads.hpp"
#include "tests/laws/transport_laws.hpp"

using namespace gradsync;
using namespace std::chrono_literals;

namespace {

const auto run_threads = [](int size, auto body) { thread_group(size).run(body); };

std::atomic<int> seconds_passed{0};
std::chrono::steady_clock::time_point test_clock() {
  return std::chrono::steady_clock::time_point{} + std::chrono::seconds(seconds_passed.load());
}

// The channels of all ranks, for one thread that plays them all by polling.
struct table {
  explicit table(int size, std::size_t slots = 1) {
    outcome = std::make_shared<detail::failure>(size, test_clock);
    shared = std::make_shared<detail::crossing>(size);
    for (int rank = 0; rank < size; ++rank) ranks.emplace_back(outcome, shared, rank, size, slots);
  }
  detail::lane& lane(int rank) { return shared->lanes[detail::index(rank)]; }

  std::shared_ptr<detail::failure> outcome;
  std::shared_ptr<detail::crossing> shared;
  std::deque<thread_channel> ranks;
};

}  // namespace

static_assert(20'000 * sizeof(float) > 2 * detail::piece_bytes);  // what mean_laws takes for several pieces

TEST_CASE("threads obey the laws of channels") { laws::channel_laws(run_threads); }

TEST_CASE("ranks driven in any order, by single pieces, come to the mean of every strategy") {
  for (const int size : {2, 3, 4, 5, 8})
    for (unsigned seed = 1; seed <= 3; ++seed)
      for (int which = 0; which < laws::all_strategies; ++which) {
        table t(size);
        std::vector<program> programs(detail::index(size));
        bool canonical = false;
        for (int rank = 0, i = 0; rank < size; ++rank, i = 0)
          laws::each_program(rank, size, [&](program p, bool is_canonical) {
            if (i++ == which) programs[detail::index(rank)] = std::move(p), canonical = is_canonical;
          });
        const laws::mean_case<float> c{.count = seed == 1 ? 20'001 * detail::index(programs[0].chunks) : 100 * seed + 1, .seed = seed};
        std::deque<laws::scattered<float>> buffers;
        std::vector<cursor> at(detail::index(size));
        std::mt19937 random(seed);
        std::vector<int> left;  // ranks that are not through
        for (int rank = 0; rank < size; ++rank) {
          buffers.emplace_back(c.input(rank), laws::pieces_of(c.count, seed + 100 * detail::index(rank)));
          left.push_back(rank);
        }
        std::vector<bool> posted(detail::index(size)), ran(detail::index(size));
        for (int turns = 0; !left.empty(); ++turns) {
          REQUIRE(turns < 1'000'000);
          const std::size_t pick = random() % left.size();
          const auto rank = detail::index(left[pick]);
          const program& p = programs[rank];
          if (!posted[rank]) {
            at[rank].place = t.ranks[rank].post(p, laws::part_of(c, buffers[rank], p));
            posted[rank] = true;
          } else if (!ran[rank]) {
            ran[rank] = run(p, t.ranks[rank], at[rank], deadline::poll());
          } else if (t.ranks[rank].drain(p, at[rank].place, deadline::poll())) {
            left.erase(left.begin() + static_cast<std::ptrdiff_t>(pick));
          }
        }
        INFO(programs[0].name << " on " << size << " ranks, " << c.count << " elements, seed " << seed);
        for (std::size_t rank = 0; rank < buffers.size(); ++rank) {
          CHECK(buffers[rank].guards_intact());
          CHECK(laws::same_bits(buffers[rank].values(), buffers[0].values()));
        }
        CHECK(c.is_mean(buffers[0].values(), programs[0], canonical));
      }
}

TEST_CASE("what a peer still has to read is not overwritten") {
  table t(3);
  const laws::mean_case<double> c{.count = 40, .seed = 1, .kind = laws::numbers_kind::integers};
  std::deque<laws::scattered<double>> buffers;
  std::vector<program> programs;
  cursor at[3];
  for (int rank = 0; rank < 3; ++rank) {
    programs.push_back(compile(laws::wasteful{}, rank, 3));
    buffers.emplace_back(c.input(rank), std::vector<std::size_t>{40});
    at[rank].place = t.ranks[detail::index(rank)].post(programs.back(), laws::part_of(c, buffers.back(), programs.back()));
  }
  const auto advance = [&](int rank) {
    return run(programs[detail::index(rank)], t.ranks[detail::index(rank)], at[rank], deadline::poll());
  };
  CHECK_FALSE(advance(2));
  CHECK_FALSE(advance(0));
  CHECK(at[0].round == 2);  // rank 2 is ready to be added, and rank 1 has not come to read
  CHECK(buffers[0].values() == c.input(0));
  CHECK_FALSE(advance(1));  // it reads
  CHECK_FALSE(advance(0));
  CHECK(at[0].round == 4);
  CHECK(advance(2));
  CHECK_FALSE(t.ranks[2].drain(programs[2], at[2].place, deadline::poll()));  // its result has not been fetched
  CHECK(advance(1));
  CHECK_FALSE(t.ranks[2].drain(programs[2], at[2].place, deadline::poll()));
  CHECK(advance(0));
  CHECK(t.ranks[2].drain(programs[2], at[2].place, deadline::poll()));
  for (const auto& buffer : buffers) CHECK(c.is_mean(buffer.values(), programs[0], true));
}

TEST_CASE("what a peer still has to read in scratch is not overwritten either, and a buffer gets its result when it is no longer read") {
  table t(4);
  const laws::mean_case<float> c{.count = 40, .seed = 1};
  std::deque<laws::scattered<float>> buffers;
  std::vector<program> programs;
  cursor at[4];
  for (int rank = 0; rank < 4; ++rank) {
    programs.push_back(compile(recursive_doubling{}, rank, 4));
    buffers.emplace_back(c.input(rank), std::vector<std::size_t>{7, 33});
    at[rank].place = t.ranks[detail::index(rank)].post(programs.back(), laws::part_of(c, buffers.back(), programs.back()));
  }
  const auto advance = [&](int rank) {
    return run(programs[detail::index(rank)], t.ranks[detail::index(rank)], at[rank], deadline::poll());
  };
  CHECK_FALSE(advance(0));
  CHECK(at[0].round == 1);
  CHECK(buffers[0].values() == c.input(0));  // the sum is in scratch
  CHECK_FALSE(advance(2));
  CHECK_FALSE(advance(3));
  CHECK(at[3].round == 1);  // it needs rank 1
  CHECK_FALSE(advance(0));  // rank 2 is ready, but rank 1 has not read what lies in the buffer
  CHECK(at[0].round == 1);
  CHECK(buffers[0].values() == c.input(0));
  CHECK(advance(1));
  CHECK(advance(0));
  CHECK_FALSE(t.ranks[0].drain(programs[0], at[0].place, deadline::poll()));  // rank 2 has still to read its scratch
  CHECK(advance(2));
  CHECK(t.ranks[0].drain(programs[0], at[0].place, deadline::poll()));
  CHECK(advance(3));
  for (const auto& buffer : buffers) CHECK(c.is_mean(buffer.values(), programs[0], true));
}

TEST_CASE("scratch is allocated by the first collective that needs it, one a slot, and kept") {
  table t(2, 2);
  const program ps[] = {compile(recursive_doubling{}, 0, 2), compile(recursive_doubling{}, 1, 2)};
  const auto sum = [&](std::size_t n, bool both_slots) {
    const laws::scattered<float> a(std::vector<float>(n, 1)), b(std::vector<float>(n, 2)), c(std::vector<float>(n, 3)),
        d(std::vector<float>(n, 4));
    std::vector<cursor> at[2];
    for (const std::size_t r : {0u, 1u}) {
      at[r].push_back({.place = t.ranks[r].post(ps[r], {.buffer = (r == 0 ? a : b).view(), .weight = 1})});
      if (both_slots) at[r].push_back({.place = t.ranks[r].post(ps[r], {.buffer = (r == 0 ? c : d).view(), .weight = 1})});
    }
    for (std::size_t i = 0; i < at[0].size(); ++i)  // in their order
      for (int turn = 0; turn < 4; ++turn) run(ps[turn % 2], t.ranks[turn % 2], at[turn % 2][i], deadline::poll());
    CHECK(a.values() == std::vector<float>(n, 1.5f));
    CHECK(b.values() == std::vector<float>(n, 1.5f));
    CHECK(c.values() == std::vector<float>(n, both_slots ? 3.5f : 3));
    CHECK(d.values() == std::vector<float>(n, both_slots ? 3.5f : 4));
    CHECK((a.guards_intact() && b.guards_intact() && c.guards_intact() && d.guards_intact()));
  };
  const auto memory = [&](std::size_t slot) { return t.lane(0).scratch[slot].data(); };
  CHECK(t.lane(0).scratch.size() == 2);
  CHECK((memory(0) == nullptr && memory(1) == nullptr));
  sum(100, true);
  const std::byte *const first = memory(0), *const second = memory(1);
  CHECK((first != nullptr && second != nullptr && first != second));
  CHECK(reinterpret_cast<std::uintptr_t>(first) % 64 == 0);
  CHECK(t.lane(0).scratch[0].size() == 400);
  for (const std::size_t n : {100u, 1u, 0u, 77u}) {
    sum(n, true);
    CHECK((memory(0) == first && memory(1) == second));
  }
  sum(5000, false);
  CHECK(t.lane(0).scratch[0].size() == 20'000);
  CHECK(memory(1) == second);

  table in_place(2, 2);
  const program ring_steps = compile(ring{}, 0, 2);
  program pass = ps[0];
  pass.fused = true;
  const laws::scattered<float> a({1, 2, 3});
  in_place.ranks[0].post(ring_steps, {.buffer = a.view(), .weight = 1});
  in_place.ranks[0].post(pass, {.buffer = a.view(), .weight = 1});
  CHECK((in_place.lane(0).scratch[0].data() == nullptr && in_place.lane(0).scratch[1].data() == nullptr));
}

TEST_CASE("a peer that has no scratch where a rank would read runs another strategy, and is told so") {
  table t(4);
  const laws::scattered<float> buffers[] = {laws::scattered<float>({1, 2}), laws::scattered<float>({3, 4}), laws::scattered<float>({5, 6}),
                                            laws::scattered<float>({7, 8})};
  const program mine = compile(recursive_doubling{}, 0, 4), other = compile(recursive_doubling{}, 1, 4), odd = compile(tree{}, 2, 4);
  cursor at{.place = t.ranks[0].post(mine, {.buffer = buffers[0].view(), .weight = 1})};
  cursor peer{.place = t.ranks[1].post(other, {.buffer = buffers[1].view(), .weight = 1})};
  t.ranks[2].post(odd, {.buffer = buffers[2].view(), .weight = 1});
  t.lane(2).progress.raise(100);
  CHECK_FALSE(run(other, t.ranks[1], peer, deadline::poll()));
  CHECK_THROWS_WITH_AS(run(mine, t.ranks[0], at, deadline::poll()),
                       "gradsync[rank 0]: rank 2 does not run recursive_doubling; give every rank the same strategy", mismatch_error);
  CHECK(buffers[2].values() == std::vector<float>{5, 6});
}

TEST_CASE("scratch outlives its channel, for a peer that is late to leave it") {
  table t(2);
  const program ps[] = {compile(recursive_doubling{}, 0, 2), compile(recursive_doubling{}, 1, 2)};
  const laws::scattered<float> a({1, 2, 3}), b({4, 5, 6});
  {
    thread_channel gone(t.outcome, t.shared, 0, 2, 1);
    gone.post(ps[0], {.buffer = a.view(), .weight = 1});
  }
  CHECK(t.lane(0).scratch[0].size() == 12);
  CHECK(t.lane(0).slots[0].scratch.at == reinterpret_cast<detail::location>(t.lane(0).scratch[0].data()));
}

TEST_CASE("a channel keeps twice as many postings as may be under way, and a power of two") {
  for (const std::size_t slots : {0u, 1u, 2u, 3u, 6u, 50u}) {
    table t(2, slots);
    const std::size_t room = t.lane(0).slots.size();
    CHECK(room >= 2 * slots);
    CHECK(std::has_single_bit(room));  // so that the slots go on where the sequence wraps around
  }
}

TEST_CASE("the total weight of a rank's last collective stays, though its peers have posted the next") {
  table t(2);
  const program ps[] = {compile(native{}, 0, 2), compile(native{}, 1, 2)};
  const laws::scattered<float> a({1}), b({2});
  for (int repeat = 0; repeat < 5; ++repeat) {
    const double weight = repeat + 1;
    cursor at[] = {{.place = t.ranks[0].post(ps[0], {.buffer = a.view(), .weight = weight})},
                   {.place = t.ranks[1].post(ps[1], {.buffer = b.view(), .weight = 10 * weight})}};
    const auto finish = [&] {
      for (const std::size_t r : {0u, 1u}) CHECK(run(ps[r], t.ranks[r], at[r], deadline::poll()));
      for (const std::size_t r : {0u, 1u}) CHECK(t.ranks[r].drain(ps[r], at[r].place, deadline::poll()));
    };
    finish();
    CHECK(t.ranks[1].total_weight(at[1].place) == 11 * weight);
    at[1] = {.place = t.ranks[1].post(ps[1], {.buffer = b.view(), .weight = 0.5})};
    CHECK(t.ranks[0].total_weight(at[0].place) == 11 * weight);
    at[0] = {.place = t.ranks[0].post(ps[0], {.buffer = a.view(), .weight = 0.25})};
    finish();
    CHECK(t.ranks[0].total_weight(at[0].place) == 0.75);
  }
}

TEST_CASE("a buffer is not given back while a peer has still to read it or to write to it") {
  table t(3);
  const program p = compile(native{}, 0, 3);
  constexpr std::size_t count = 10'000;
  const laws::scattered<float> a(std::vector<float>(count, 3)), b{std::vector<float>(count)}, c{std::vector<float>(count)};
  const laws::scattered<float>* const buffers[] = {&a, &b, &c};
  ticket place;
  for (const std::size_t r : {0u, 1u, 2u}) place = t.ranks[r].post(p, {.buffer = buffers[r]->view(), .weight = 1});
  for (const std::size_t r : {0u, 1u}) {
    CHECK(t.ranks[r].reduce(place, deadline::poll()));
    for (const std::size_t other : {0u, 1u}) CHECK_FALSE(t.ranks[other].drain(p, place, deadline::poll()));
  }
  CHECK(t.ranks[2].reduce(place, deadline::poll()));
  for (const std::size_t r : {0u, 1u, 2u}) CHECK(t.ranks[r].drain(p, place, deadline::poll()));
  for (const auto* buffer : buffers) CHECK(buffer->values() == std::vector<float>(count, 1));

  for (const std::size_t r : {0u, 1u, 2u}) place = t.ranks[r].post(p, {.buffer = buffers[r]->view()});
  CHECK_FALSE(t.ranks[1].broadcast(place, 1, deadline::poll()));  // the root stays until all have fetched
  CHECK(t.ranks[2].broadcast(place, 1, deadline::poll()));
  CHECK_FALSE(t.ranks[1].broadcast(place, 1, deadline::poll()));
  CHECK(t.ranks[0].broadcast(place, 1, deadline::poll()));
  CHECK(t.ranks[1].broadcast(place, 1, deadline::poll()));
}

TEST_CASE("of few elements a rank has the mean when all have posted, and waits for nobody again") {
  const program programs[] = {compile(native{}, 0, 3), compile(native{}, 1, 3), compile(native{}, 2, 3)};
  const program& p = programs[0];
  constexpr std::size_t most = detail::carried_bytes / sizeof(float);
  for (const std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{17}, most, most + 1}) {
    table t(3);
    const bool few = count <= most;
    for (unsigned seed = 1; seed < 9; ++seed) {  // more than there are slots
      const laws::mean_case<float> c{.count = count, .seed = seed, .kind = laws::numbers_kind::reals, .weighted = true};
      std::deque<laws::scattered<float>> buffers;
      ticket place;
      for (int r = 0; r < 3; ++r) {
        buffers.emplace_back(c.input(r), laws::pieces_of(count, seed + 100 * detail::index(r)));
        if (r == 2) CHECK_FALSE(t.ranks[0].reduce(place, deadline::poll()));
        place = t.ranks[detail::index(r)].post(p, laws::part_of(c, buffers.back(), programs[r]));
      }
      CHECK(t.ranks[1].reduce(place, deadline::poll()));
      CHECK(t.ranks[1].drain(p, place, deadline::poll()) == few);
      for (const std::size_t r : {0u, 2u}) CHECK(t.ranks[r].reduce(place, deadline::poll()));
      for (const std::size_t r : {0u, 1u, 2u}) CHECK(t.ranks[r].drain(p, place, deadline::poll()));
      for (const auto& buffer : buffers) CHECK((c.is_mean(buffer.values(), p, true) && buffer.guards_intact()));
    }
  }
}

TEST_CASE("a rank that is ahead by a collective overwrites nothing that a peer has still to add") {
  table t(2);
  const program p = compile(native{}, 0, 2);
  std::deque<laws::scattered<float>> buffers;
  ticket ahead, behind;
  for (int step = 0; step < 20; ++step) {  // rank 0 has posted the next one, and could not do more, when rank 1 comes to add
    for (int r = 0; r < 2; ++r) buffers.emplace_back(std::vector<float>(5, static_cast<float>(10 * step + r)));
    const auto lent = [&](std::size_t back) { return contribution{.buffer = buffers[buffers.size() - back].view(), .weight = 1}; };
    if (step == 0) ahead = t.ranks[0].post(p, lent(2));
    behind = t.ranks[1].post(p, lent(1));
    CHECK(t.ranks[0].reduce(ahead, deadline::poll()));
    buffers.emplace_back(std::vector<float>(5, static_cast<float>(10 * step + 10)));
    const std::size_t next = buffers.size() - 1;
    ahead = t.ranks[0].post(p, {.buffer = buffers[next].view(), .weight = 1});
    CHECK_FALSE(t.ranks[0].reduce(ahead, deadline::poll()));
    CHECK(t.ranks[1].reduce(behind, deadline::poll()));
    CHECK(buffers[next - 1].values() == std::vector<float>(5, static_cast<float>(10 * step) + 0.5f));
  }
}

TEST_CASE("who comes when another has given up is refused, and so are those who waited for both") {
  table t(3);
  const program p = compile(native{}, 0, 3);
  const laws::scattered<float> a({1, 2}), b({3, 4}), c({5, 6});
  t.ranks[2].post(p, {.buffer = c.view(), .weight = 1});
  const ticket place = t.ranks[0].post(p, {.buffer = a.view(), .weight = 1});
  CHECK_THROWS_AS(t.ranks[0].reduce(place, deadline::after(0ns, test_clock)), timeout_error);
  t.outcome->fail(0, std::make_exception_ptr(std::runtime_error("rank 1 did not come")));
  t.ranks[1].post(p, {.buffer = b.view(), .weight = 1});
  CHECK_THROWS_WITH_AS(t.ranks[1].reduce(place, deadline::never()), "gradsync[rank 1]: rank 0 failed: rank 1 did not come",
                       transport_error);
  CHECK_THROWS_WITH_AS(t.ranks[2].reduce(place, deadline::never()), doctest::Contains("rank 0 failed: rank 1 did not come"),
                       transport_error);
  CHECK((b.values() == std::vector<float>{3, 4} && c.values() == std::vector<float>{5, 6}));
}

TEST_CASE("what was complete before a rank failed has come about for all") {
  table t(2);
  const program p = compile(native{}, 0, 2);
  const laws::scattered<float> a({1, 2}), b({3, 4});
  const ticket place = t.ranks[0].post(p, {.buffer = a.view(), .weight = 1});
  t.ranks[1].post(p, {.buffer = b.view(), .weight = 1});
  CHECK(t.ranks[0].reduce(place, deadline::never()));
  t.outcome->fail(0, std::make_exception_ptr(std::runtime_error("disk full")));
  CHECK(t.ranks[1].reduce(place, deadline::never()));
  CHECK(b.values() == std::vector<float>{2, 3});
}

TEST_CASE("few elements are broadcast from what the root has posted") {
  table t(3);
  const program p = compile(native{}, 0, 3);
  for (int root = 0; root < 3; ++root) {
    const laws::scattered<float> a({1, 2}), b({3, 4}), c({5, 6});
    const laws::scattered<float>* const all[] = {&a, &b, &c};
    ticket place;
    for (const std::size_t r : {0u, 1u, 2u}) place = t.ranks[r].post(p, {.buffer = all[r]->view()});
    const auto first = static_cast<std::size_t>(root), second = (first + 1) % 3, third = (first + 2) % 3;
    CHECK_FALSE(t.ranks[second].broadcast(place, root, deadline::poll()));  // the root has not seen whether all mean the same
    CHECK_FALSE(t.ranks[first].broadcast(place, root, deadline::poll()));   // and goes only when all have come by
    CHECK(t.ranks[third].broadcast(place, root, deadline::poll()));
    CHECK(t.ranks[second].broadcast(place, root, deadline::poll()));
    CHECK(t.ranks[first].broadcast(place, root, deadline::poll()));
    for (const auto* one : all) CHECK((one->values() == all[root]->values() && one->guards_intact()));
  }
}

TEST_CASE("after a failure nobody enters a peer's memory") {
  const program p = compile(native{}, 0, 2);
  for (const int first : {0, 1}) {
    table t(2);
    const std::vector<float> ours(10'000, 1), theirs(10'000, 4);
    const laws::scattered<float> a(ours), b(theirs);
    const ticket place = t.ranks[0].post(p, {.buffer = a.view(), .weight = 1});
    t.ranks[1].post(p, {.buffer = b.view(), .weight = 1});
    t.outcome->fail(first, std::make_exception_ptr(std::runtime_error("disk full")));
    CHECK_THROWS_WITH_AS(t.ranks[0].reduce(place, deadline::never()), doctest::Contains("failed: disk full"), transport_error);
    CHECK(a.values() == ours);
    CHECK(b.values() == theirs);
    CHECK(t.lane(0).inside == 0);
    t.ranks[1].leave();
  }
}

TEST_CASE("a pass looks at failure on its way") {
  table t(2);
  std::vector<float> memory(1 << 14);
  std::vector<extent> again;  // the same memory many times: a gigabyte to go through
  for (std::size_t i = 0; i < 20'000; ++i) again.push_back({reinterpret_cast<std::byte*>(memory.data()), i << 14, 1 << 14});
  const program p = compile(native{}, 0, 2);
  const ticket place = t.ranks[0].post(p, {.buffer = {dtype::float32, again}, .weight = 1});
  t.ranks[1].post(p, {.buffer = {dtype::float32, again}, .weight = 1});
  std::thread failing([&] {
    while (t.lane(0).inside == 0) std::this_thread::yield();
    t.outcome->fail(1, std::make_exception_ptr(std::runtime_error("disk full")));
    t.ranks[1].leave();
    CHECK(t.lane(0).inside == 0);
  });
  CHECK_THROWS_WITH_AS(t.ranks[0].reduce(place, deadline::never()), "gradsync[rank 0]: rank 1 failed: disk full", transport_error);
  failing.join();
}

TEST_CASE("channels of one rank are told apart by the order in which they were opened") {
  thread_group(3).run([](auto& comm) {
    auto a = comm.open(1);
    auto b = comm.open(1);
    auto c = comm.open(1);
    const program p = compile(native{}, comm.rank(), 3);
    const laws::scattered<float> x(std::vector<float>(4, 1)), y(std::vector<float>(5, 2)), z(std::vector<float>(6, 3));
    laws::lending(comm, a, [&] {
      cursor in_c{.place = c.post(p, {.buffer = z.view(), .weight = 1})};
      cursor in_a{.place = a.post(p, {.buffer = x.view(), .weight = 1})};
      cursor in_b{.place = b.post(p, {.buffer = y.view(), .weight = 1})};
      for (int i = 0; i < 3; ++i) {  // each rank in another order; a fused pass needs its peers to have posted, no more
        const int which = (i + comm.rank()) % 3;
        thread_channel& one = which == 0 ? a : which == 1 ? b : c;
        CHECK(run(p, one, which == 0 ? in_a : which == 1 ? in_b : in_c, comm.limit()));
      }
      CHECK((a.drain(p, in_a.place, comm.limit()) && b.drain(p, in_b.place, comm.limit()) && c.drain(p, in_c.place, comm.limit())));
    });
    CHECK(x.values() == std::vector<float>(4, 1));
    CHECK(y.values() == std::vector<float>(5, 2));
    CHECK(z.values() == std::vector<float>(6, 3));
  });
}
