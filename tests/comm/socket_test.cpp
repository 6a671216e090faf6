// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

#include "gradsync/comm/socket.hpp"

#include <doctest/doctest.h>

#include <fcntl.h>

#include <thread>

using namespace gradsync;
using namespace gradsync::detail;
using namespace std::chrono_literals;

namespace {

struct pair_of_sockets {
  pair_of_sockets() {
    int files[2];
    REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, files) == 0);
    raw = descriptor(files[0]);
    reader = connection(descriptor(files[1]));
  }
  void write(std::string_view bytes) {
    REQUIRE(::send(raw.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size()));
  }

  descriptor raw;
  connection reader;
};

// The bytes of a frame, as a connection sends them.
std::string bytes_of(const frame& f) {
  pair_of_sockets two;
  REQUIRE(two.reader.send(f, deadline::poll()));
  std::string bytes(1 << 12, '\0');
  const ssize_t got = recv(two.raw.get(), bytes.data(), bytes.size(), 0);
  REQUIRE(got > 0);
  return bytes.substr(0, static_cast<std::size_t>(got));
}

using status = connection::status;

}  // namespace

TEST_CASE("a frame arrives however its bytes are cut, and the next one after it") {
  const std::string bytes = bytes_of({.kind = 7, .call = 9, .bytes = std::string("ab\0c", 4)}) + bytes_of({.kind = 1});
  for (std::size_t step = 1; step <= bytes.size(); ++step) {
    pair_of_sockets two;
    std::vector<frame> got;
    for (std::size_t at = 0; at < bytes.size(); at += step) {
      two.write(std::string_view(bytes).substr(at, step));
      while (two.reader.receive(100) == status::whole) got.push_back(two.reader.received());
    }
    REQUIRE(got.size() == 2);
    CHECK((got[0].kind == 7 && got[0].call == 9 && got[0].bytes == std::string("ab\0c", 4)));
    CHECK((got[1].kind == 1 && got[1].call == 0 && got[1].bytes.empty()));
    CHECK(two.reader.receive(100) == status::more);
  }
}

TEST_CASE("garbage, and what is longer than was expected, is not listened to") {
  for (const std::string& bytes : {std::string("GET / HTTP/1.1\r\nHost: x\r\n\r\n"), std::string(64, '\0'), std::string(64, '\xff'),
                                   bytes_of({.kind = 1, .call = 0, .bytes = std::string(101, 'x')})}) {
    pair_of_sockets two;
    two.write(bytes);
    CHECK(two.reader.receive(100) == status::garbage);
  }
}

TEST_CASE("an end that has gone is noticed, in the middle of a frame too") {
  const std::string bytes = bytes_of({.kind = 1, .call = 0, .bytes = "abc"});
  for (std::size_t some = 0; some < bytes.size(); ++some) {
    pair_of_sockets two;
    if (some > 0) two.write(std::string_view(bytes).substr(0, some));
    two.raw = descriptor();
    CHECK(two.reader.receive(100, deadline::after(10s)) == status::gone);
    CHECK_FALSE(two.reader.send({.kind = 1}, deadline::after(10s)));  // and no SIGPIPE
  }
}

TEST_CASE("a wait for a frame, and one for room to send, end at their deadlines") {
  pair_of_sockets two;
  auto begin = std::chrono::steady_clock::now();
  CHECK(two.reader.receive(100, deadline::after(50ms)) == status::more);
  CHECK(std::chrono::steady_clock::now() - begin >= 50ms);
  begin = std::chrono::steady_clock::now();
  bool sent = true;
  while (sent) sent = two.reader.send({.kind = 1, .call = 0, .bytes = std::string(1 << 20, 'x')}, deadline::after(50ms));
  CHECK(std::chrono::steady_clock::now() - begin >= 50ms);
  CHECK(two.reader.receive(100, deadline::poll()) == status::more);
}

TEST_CASE("a large frame passes through small buffers") {
  pair_of_sockets two;
  const std::string large(3 << 20, 'y');
  std::thread sender([&] { CHECK(connection(std::move(two.raw)).send({.kind = 2, .call = 0, .bytes = large}, deadline::after(60s))); });
  CHECK(two.reader.receive(large.size(), deadline::after(60s)) == status::whole);
  CHECK(two.reader.received().bytes == large);
  sender.join();
}

TEST_CASE("connecting says why it cannot") {
  std::string why;
  const auto at = resolve({"127.0.0.1", "0"}, AI_NUMERICHOST, why);
  REQUIRE(at.size() == 1);
  const descriptor door = listen_at(at[0]);
  socket_address to{.bytes = sizeof(sockaddr_storage)};
  REQUIRE(getsockname(door.get(), reinterpret_cast<sockaddr*>(&to.address), &to.bytes) == 0);
  CHECK(connect_to(to, deadline::after(10s), why));
  CHECK(why.empty());
  CHECK_FALSE(listen_at(to));
  CHECK(errno == EADDRINUSE);
  const descriptor moved = std::move(const_cast<descriptor&>(door));
  { const descriptor closed = std::move(const_cast<descriptor&>(moved)); }
  CHECK_FALSE(connect_to(to, deadline::after(10s), why));
  CHECK(why == to.text() + ": Connection refused");
}

TEST_CASE("an address is a host and a port") {
  const auto [host, port] = split_address("node0:29500");
  CHECK((host == "node0" && port == "29500"));
  CHECK(split_address("[fd00::2]:1").host == "fd00::2");
  for (const char* text : {"", ":", "x", "x:", ":1", "x:65536", "x:1a", "::1:5", "[]:1", "x:-1", "x:123456"}) {
    CAPTURE(text);
    CHECK_THROWS_AS(split_address(text), usage_error);
  }
}

TEST_CASE("a file is closed once, by its last owner") {
  int files[2];
  REQUIRE(pipe(files) == 0);
  const descriptor other(files[1]);
  const auto is_open = [](int file) { return fcntl(file, F_GETFD) != -1; };
  {
    descriptor first(files[0]);
    descriptor second(std::move(first));
    CHECK((!first && second && second.get() == files[0]));
    first = std::move(second);
    CHECK(is_open(files[0]));
  }
  CHECK_FALSE(is_open(files[0]));
}
