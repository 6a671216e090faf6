// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0
#include "gradsync/comm/flag.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <stdexcept>
#include <vector>

using namespace gradsync;
using namespace std::chrono_literals;
using steady = std::chrono::steady_clock;

namespace {

const auto patient = [] { return true; };

}  // namespace

TEST_CASE("a flag begins at 0, and has reached what lies up to 2^31 behind it") {
  flag f;
  CHECK(f.value() == 0);
  CHECK(f.reached(0));
  CHECK(f.reached(0x80000001u));
  CHECK_FALSE(f.reached(1));
  CHECK_FALSE(f.reached(0x7fffffffu));
  f.raise(7);
  CHECK(f.value() == 7);
  CHECK((f.reached(6) && f.reached(7) && !f.reached(8)));
}

TEST_CASE("counters wrap around") {
  flag f;
  for (std::uint32_t value = 0x7ffffff0u; value != 0x80000010u; ++value) {  // where a signed number would change its sign
    f.raise(value);
    CHECK((f.reached(value) && f.reached(value - 1) && !f.reached(value + 1)));
  }
  for (std::uint32_t value = 0xfffffff0u; value != 0x10u; ++value) {
    f.raise(value);
    CHECK((f.reached(value) && f.reached(value - 1) && !f.reached(value + 1)));
    CHECK((f.reached(value - 0x7fffffffu) && !f.reached(value + 0x7fffffffu)));
    CHECK(f.wait(value - 5, patient));
  }
  f.raise(0xfffffffeu);
  std::thread raiser([&] {
    std::this_thread::sleep_for(2ms);
    for (const std::uint32_t value : {0xffffffffu, 0u, 1u}) f.raise(value);
  });
  CHECK(f.wait(1, patient));
  raiser.join();
}

TEST_CASE("a wait for what is reached asks nobody; one that is given up says whether it was reached meanwhile") {
  flag f;
  f.raise(3);
  CHECK(f.wait(3, []() -> bool { throw std::logic_error("asked"); }));
  int asked = 0;
  CHECK_FALSE(f.wait(4, [&] { return ++asked < 3; }));
  CHECK(asked == 3);
  CHECK(f.wait(4, [&] {
    f.raise(4);
    return false;
  }));
  CHECK_THROWS_AS(f.wait(5, []() -> bool { throw std::domain_error("the peer has died"); }), std::domain_error);
  f.raise(5);
  CHECK(f.wait(5, patient));
}

TEST_CASE("a sleeper asks again at least every 20 ms, and at once when it is woken") {
  flag f;
  std::atomic<int> asked{0};
  std::atomic<bool> stop{false};
  std::thread sleeper([&] {
    CHECK_FALSE(f.wait(1, [&] {
      ++asked;
      return !stop.load();
    }));
  });
  const auto begin = steady::now();
  while (asked < 5) std::this_thread::sleep_for(1ms);
  CHECK(steady::now() - begin < 10s);
  std::vector<std::chrono::nanoseconds> delays;
  for (int i = 0; i < 40; ++i) {
    const int before = asked;
    const auto woken = steady::now();
    while (asked == before) f.wake(), std::this_thread::yield();
    delays.push_back(steady::now() - woken);
  }
  std::sort(delays.begin(), delays.end());
  CHECK(delays[20] < 8ms);  // the median: naps alone would make it 20 ms
  stop = true;
  f.wake();
  sleeper.join();
}

TEST_CASE("all sleepers wake when their flag is raised, not when their naps are over") {
  constexpr std::uint32_t sleepers = 4, rounds = 60;
  flag there;
  flag back[sleepers];
  std::vector<std::chrono::nanoseconds> delays;
  std::vector<std::thread> threads;
  for (std::uint32_t s = 0; s < sleepers; ++s)
    threads.emplace_back([&, s] {
      for (std::uint32_t i = 1; i <= rounds; ++i) {
        there.wait(i, patient);
        back[s].raise(i);
      }
    });
  for (std::uint32_t i = 1; i <= rounds; ++i) {
    std::this_thread::sleep_for(2ms);  // longer than they spin and yield
    const auto raised = steady::now();
    there.raise(i);
    for (flag& f : back) f.wait(i, patient);
    delays.push_back(steady::now() - raised);
  }
  for (std::thread& thread : threads) thread.join();
  std::sort(delays.begin(), delays.end());
  CHECK(delays[rounds / 2] < 8ms);
}

TEST_CASE("in 100,000 rounds between two threads no wake-up is lost, and what was written before is seen") {
  flag there, back;
  constexpr std::uint32_t rounds = 100'000, origin = 0xffff0000u;  // the counters wrap around on the way
  there.raise(origin);
  back.raise(origin);
  std::uint32_t message = 0;
  int wrong = 0, late = 0;
  std::thread peer([&] {
    for (std::uint32_t i = 1; i <= rounds; ++i) {
      there.wait(origin + i, patient);
      if (message != i) ++wrong;
      message = ~i;
      back.raise(origin + i);
    }
  });
  for (std::uint32_t i = 1; i <= rounds; ++i) {
    const auto begin = steady::now();
    message = i;
    there.raise(origin + i);
    back.wait(origin + i, patient);
    if (message != ~i) ++wrong;
    if (steady::now() - begin > 18ms) ++late;  // a nap that nobody ended, or a busy machine
  }
  peer.join();
  CHECK(wrong == 0);
  CHECK(late < 1000);
}

TEST_CASE("any number of threads may wait for a flag, each for a target of its own") {
  flag f;
  std::atomic<std::uint32_t> highest{0};
  std::atomic<int> early{0}, awake{0};
  std::vector<std::thread> waiters;
  for (std::uint32_t w = 0; w < 12; ++w)
    waiters.emplace_back([&, w] {
      for (std::uint32_t target = w + 1; target <= 240; target += 12) {
        f.wait(target, patient);
        if (highest.load() < target) ++early;
        ++awake;
      }
    });
  for (std::uint32_t value = 1; value <= 240; ++value) {
    if (value % 16 == 0) std::this_thread::sleep_for(1ms);
    highest = value;
    f.raise(value);
  }
  for (std::thread& waiter : waiters) waiter.join();
  CHECK(early == 0);
  CHECK(awake == 240);
}
