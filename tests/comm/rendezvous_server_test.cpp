// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

#include "gradsync/comm/rendezvous_server.hpp"

#include <doctest/doctest.h>

#include <atomic>

#include "tests/comm/meetings.hpp"

using namespace gradsync;
using namespace gradsync::detail;
using namespace std::chrono_literals;

namespace {

// A connection to that address, as soon as somebody listens there.
connection connected_to(const std::string& address) {
  std::string why;
  const socket_address at = resolve(split_address(address), AI_NUMERICHOST, why)[0];
  for (;;) {
    if (descriptor file = connect_to(at, deadline::after(10s), why)) return connection(std::move(file));
    std::this_thread::sleep_for(1ms);
  }
}

void write_raw(const connection& to, std::string_view bytes) { REQUIRE(::send(to.file(), bytes.data(), bytes.size(), MSG_NOSIGNAL) > 0); }

using status = connection::status;

}  // namespace

TEST_CASE("strangers do not keep ranks from meeting, whatever they send and however long they stay") {
  const meetings::group g{.size = 4, .address = meetings::free_address()};
  std::atomic<int> met{0};
  std::vector<std::thread> threads;
  const auto come = [&](int rank) {
    threads.emplace_back([&, rank] {
      rendezvous here(meetings::member(g, rank), 60s);
      CHECK(here.all_gather("x").size() == 4);
      ++met;
    });
  };
  come(0);
  std::vector<connection> stay;
  const char* const hellos[] = {"", "garbage", "1", "1 4", "1 4 - ", "x 4 - ", "1 x - ", "-1 4 - ", " ", "1  - ", "99999999999 4 - "};
  for (int round = 0; round < 3; ++round) {
    stay.push_back(connected_to(g.address));  // silent
    stay.push_back(connected_to(g.address));
    write_raw(stay.back(), "GET / HTTP/1.1\r\n\r\n");
    stay.push_back(connected_to(g.address));
    write_raw(stay.back(), "gradsyn");  // half of what could be a frame
    for (const char* text : hellos) {
      if (std::string(text) == "1 4 - ") continue;  // that one would be believed
      stay.push_back(connected_to(g.address));
      REQUIRE(stay.back().send(frame_of(word::hello, text), deadline::after(10s)));
    }
    stay.push_back(connected_to(g.address));
    REQUIRE(stay.back().send(frame_of(word::given, "1 4 - "), deadline::after(10s)));
    stay.push_back(connected_to(g.address));
    REQUIRE(stay.back().send(frame_of(word::hello, std::string(5000, '1')), deadline::after(10s)));
    connected_to(g.address);  // goes at once
    if (round < 2) come(round + 1);
    std::this_thread::sleep_for(20ms);
  }
  CHECK(met == 0);
  come(3);
  for (std::thread& t : threads) t.join();
  CHECK(met == 4);
}

TEST_CASE("more strangers than rank 0 wants to keep are sent away, the first ones first") {
  const meetings::group g{.size = 2, .address = meetings::free_address()};
  std::vector<std::string> errors;
  std::thread zero([&] { errors = meetings::meet(g, [](rendezvous&) {}, {1}); });
  std::vector<connection> silent;
  for (int i = 0; i < 300; ++i) silent.push_back(connected_to(g.address));
  CHECK(silent.front().receive(100, deadline::after(10s)) == status::gone);
  CHECK(silent.back().receive(100, deadline::poll()) == status::more);
  rendezvous one(meetings::member(g, 1), 60s);
  zero.join();
  CHECK(errors == std::vector<std::string>{"", ""});
}

TEST_CASE("a rank that hung up before the start may come again") {
  const meetings::group g{.size = 3, .address = meetings::free_address()};
  std::vector<std::string> errors;
  std::thread zero([&] { errors = meetings::meet(g, [](rendezvous& all) { all.barrier(); }, {1, 2}); });
  connection one;
  for (int welcomes = 0; welcomes < 3;) {
    one = connected_to(g.address);
    REQUIRE(one.send(frame_of(word::hello, text_of_hello(meetings::member(g, 1), "")), deadline::after(10s)));
    REQUIRE(one.receive(most_said, deadline::after(10s)) == status::whole);
    if (says(one.received(), word::welcome)) ++welcomes;
    else REQUIRE(says(one.received(), word::mismatch));  // rank 0 has not yet seen that the one before has gone
  }
  std::thread two([&] { rendezvous(meetings::member(g, 2), 60s).barrier(); });
  REQUIRE(one.receive(most_said, deadline::after(10s)) == status::whole);
  CHECK(says(one.received(), word::start));
  REQUIRE(one.send(frame_of(word::given, {}, call_to_all_gather), deadline::after(10s)));
  REQUIRE(one.receive(most_given, deadline::after(10s)) == status::whole);
  CHECK(says(one.received(), word::gathered));
  zero.join();
  two.join();
  CHECK(errors == std::vector<std::string>{"", "", ""});
}

TEST_CASE("another job and another size are told in words") {
  const launch me{.rank = 0, .size = 2, .job = "mine", .address = meetings::free_address()};
  std::string error;
  std::thread zero([&] {
    try {
      rendezvous_server server(me, deadline::after(60s));
    } catch (const mismatch_error& e) {
      error = e.what();
    }
  });
  launch other = me;
  const auto answer = [&] {
    connection c = connected_to(me.address);
    REQUIRE(c.send(frame_of(word::hello, text_of_hello(other, "")), deadline::after(10s)));
    REQUIRE(c.receive(most_said, deadline::after(10s)) == status::whole);
    return c.received();
  };
  other.rank = 1;
  other.job = "yours";
  CHECK(says(answer(), word::refused));
  CHECK(answer().bytes == "job mine meets there");
  other.job = "mine";
  other.rank = 0;
  CHECK(answer().bytes == "another process has come to " + me.address +
                              " as rank 0; give each process a rank of its own, and each job a name (GRADSYNC_JOB)");
  other.rank = 2;
  CHECK(says(answer(), word::mismatch));
  other.size = 3;
  CHECK(answer().bytes == "rank 2 was started as one of 3 processes, rank 0 as one of 2");
  zero.join();
  CHECK(error == "gradsync: rank 2 was started as one of 3 processes, rank 0 as one of 2");
}

TEST_CASE("many missing ranks are named in short") {
  for (const auto& [size, text] : {std::pair(2, "rank 1 did"), std::pair(9, "ranks 1, 2, 3, 4, 5, 6, 7 and 8 did"),
                                   std::pair(12, "ranks 1, 2, 3, 4, 5, 6, 7, 8 and 3 more did")}) {
    const launch me{.rank = 0, .size = size, .address = meetings::free_address()};
    CHECK_THROWS_WITH_AS(rendezvous_server(me, deadline::after(20ms)),
                         ("gradsync: " + std::string(text) + " not come to " + me.address + " before the deadline of 20 ms").c_str(),
                         timeout_error);
  }
}
