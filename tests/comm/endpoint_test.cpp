// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0
#include "gradsync/comm/endpoint.hpp"

#include <doctest/doctest.h>

#include <type_traits>

#include "gradsync/core/host_stream.hpp"

using namespace gradsync;

namespace {

// All that the concept asks for, with a stream of the caller's.
template <class Stream>
struct silent {
  using stream_type = Stream;
  static constexpr std::size_t piece_bytes = 1;
  int rank() const { return 0; }
  int size() const { return 1; }
  std::string name(int) const { return {}; }
  place here() const { return {}; }
  Stream& stream() { return own; }
  aligned_bytes allocate(std::size_t bytes) { return aligned_bytes(bytes); }
  void begin(unsigned) {}
  void send(const std::byte*, std::size_t, int) {}
  void receive(std::byte*, std::size_t, int) {}
  void commit() {}
  bool arrived(unsigned, const deadline&) { return true; }
  void leave() {}
  Stream own;
};

struct device_stream : host_stream {
  static constexpr bool asynchronous = true;
};

}  // namespace

static_assert(endpoint<silent<host_stream>>);
static_assert(!endpoint<host_stream>);
static_assert(!endpoint<silent<device_stream>>);  // the host could not look at what its messages hold

TEST_CASE("an endpoint can be moved, as a channel that has it is") {
  silent<host_stream> one;
  silent<host_stream> other = std::move(one);
  CHECK(other.arrived(0, deadline::poll()));
}

TEST_CASE("a message longer than MPI can count travels in parts that leave nothing out") {
  const std::size_t most = std::size_t{1} << 30;
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{1}, most - 1, most, most + 1, (std::size_t{1} << 31) + 5, 9 * most + 7}) {
    std::size_t end = 0, parts = 0;
    detail::each_part(bytes, most, [&](std::size_t at, std::size_t n) {
      CHECK((at == end && n > 0 && n <= most));
      end = at + n;
      ++parts;
    });
    CHECK(end == bytes);
    CHECK(parts == (bytes + most - 1) / most);
  }
}
