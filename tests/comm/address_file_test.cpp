// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

#include "gradsync/comm/address_file.hpp"

#include <doctest/doctest.h>

#include <cstdlib>
#include <set>

using namespace gradsync;
using gradsync::detail::address_file;

namespace {

struct folder {
  folder() { REQUIRE(mkdtemp(name) != nullptr); }
  ~folder() { CHECK(rmdir(name) == 0); }  // so nothing was left there
  char name[64] = "/tmp/gradsync_address_file_test_XXXXXX";
  std::string path(const char* file) const { return std::string(name) + "/" + file; }
};

}  // namespace

TEST_CASE("what rank 0 writes is read by all, and goes with it") {
  const folder here;
  const address_file reader(here.path("meet"), "a/b");
  CHECK(reader.name() == here.path("meet.a_b"));
  CHECK(address_file(here.path("meet"), "").name() == here.path("meet"));
  CHECK_FALSE(reader.read());
  {
    address_file writer(here.path("meet"), "a/b");
    writer.write({"00ff", {"10.0.0.1:1", "[::1]:1"}});
    const auto found = reader.read();
    REQUIRE(found);
    CHECK(found->nonce == "00ff");
    CHECK(found->addresses == std::vector<std::string>{"10.0.0.1:1", "[::1]:1"});
  }
  CHECK_FALSE(reader.read());
}

TEST_CASE("a file that is there is never written over nor taken away by another") {
  const folder here;
  address_file first(here.path("meet"), "j");
  first.write({"1", {"10.0.0.1:1"}});
  {
    address_file second(here.path("meet"), "j");
    CHECK_THROWS_WITH_AS(second.write({"2", {"10.0.0.2:2"}}),
                         ("gradsync: the file " + here.path("meet.j") +
                          " is there already: remove it if it was left over, or give each job a name of its own")
                             .c_str(),
                         usage_error);
  }
  REQUIRE(first.read());
  CHECK(first.read()->nonce == "1");
}

TEST_CASE("a file that cannot be written is one clear line, and what is no such file is not read") {
  address_file nowhere("/nowhere/meet", "");
  CHECK_THROWS_WITH_AS(nowhere.write({"1", {}}), "gradsync: the file /nowhere/meet cannot be written: No such file or directory",
                       usage_error);
  const folder here;
  for (const char* text : {"", "garbage\n", "gradsync meets here, nonce 1\n10.0.0.1:1\n"}) {  // the last one has no end
    std::ofstream(here.path("meet")) << text;
    CHECK_FALSE(address_file(here.path("meet"), "").read());
  }
  unlink(here.path("meet").c_str());
}

TEST_CASE("this host has addresses, the loopback ones last, and nonces differ") {
  const auto all = detail::own_addresses("7");
  REQUIRE_FALSE(all.empty());
  bool loopback = false;
  for (const std::string& address : all) {
    CAPTURE(address);
    CHECK(detail::split_address(address).port == "7");
    const bool near = address.starts_with("127.") || address == "[::1]:7";
    CHECK((near || !loopback));
    loopback = loopback || near;
  }
  std::set<std::string> nonces;
  for (int i = 0; i < 100; ++i) nonces.insert(detail::make_nonce());
  CHECK(nonces.size() == 100);
  CHECK(nonces.begin()->size() == 16);
}
