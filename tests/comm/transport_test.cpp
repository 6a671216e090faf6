// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0
#include "gradsync/comm/transport.hpp"

#include <doctest/doctest.h>

#include "gradsync/comm/threads.hpp"

using namespace gradsync;

namespace {

// The least that is a channel, and a transport.
struct bare_channel {
  using stream_type = host_stream;
  ticket post(const program&, const contribution&) { return {}; }
  bool exchange(const program&, const ticket&, int, std::uint32_t, const deadline&) { return true; }
  bool drain(const program&, const ticket&, const deadline&) { return true; }
  double total_weight(const ticket&) { return 1; }
  double total(const ticket&) { return 1; }
  host_stream& stream() { return on; }
  void leave() {}
  std::size_t scratch_bytes() const { return 0; }

  host_stream on;
};
struct fused : bare_channel {
  static constexpr bool fused_is_weighted = false;
  bool reduce(const ticket&, const deadline&) { return true; }
};
struct bare_transport {
  static constexpr memory_space space = memory_space::host;
  int rank() const { return 0; }
  int size() const { return 1; }
  bare_channel open(std::size_t) { return {}; }
  deadline limit() const { return deadline::never(); }
  void fail(std::exception_ptr) {}
  void abandon(std::exception_ptr) {}
  template <class T>
  T all_reduce(T value, reduce_op) {
    return value;
  }
  template <class T>
  T broadcast(T value, int) {
    return value;
  }
  void barrier() {}
  aligned_bytes allocate(std::size_t bytes) { return aligned_bytes(bytes); }
  host_stream::handle compute_stream() const { return {}; }
};

// And what is none, for want of one thing.
struct says_not_whether_it_is_done : bare_channel {
  void exchange(const program&, const ticket&, int, std::uint32_t, const deadline&) {}
};
struct forgets_who_reads : bare_channel {
  void drain() {}
};
struct stays : bare_channel {
  void leave() = delete;
};
struct is_weighted_or_not : bare_channel {
  bool reduce(const ticket&, const deadline&) { return true; }
};
struct hides_its_stream : bare_channel {
  host_stream stream() { return {}; }
};
struct reduces_for_ever : bare_channel {
  static constexpr bool fused_is_weighted = false;
  bool reduce(const ticket&) { return true; }
};
struct opens_nothing : bare_transport {
  int open(std::size_t) { return 0; }
};
struct sums_anywhere : bare_transport {
  void space() {}
};
struct has_no_memory : bare_transport {
  void allocate(std::size_t) {}
};
struct without_limit : bare_transport {
  void limit() const {}
};
struct cannot_fail : bare_transport {
  void fail() {}
};
struct gives_nothing_back : bare_transport {
  template <class T>
  void all_reduce(T, reduce_op) {}
};

struct part_of_another : bare_transport {
  place place_of(int rank) const { return {.rank = rank, .whole = 10 + rank}; }
};

}  // namespace

static_assert(channel<bare_channel> && channel<fused> && channel<thread_channel>);
static_assert(!channel<int> && !channel<says_not_whether_it_is_done> && !channel<forgets_who_reads> && !channel<stays>);
static_assert(!channel<hides_its_stream>);
static_assert(fused_channel<fused> && fused_channel<thread_channel>);
static_assert(!fused_channel<bare_channel> && !fused_channel<reduces_for_ever> && !fused_channel<is_weighted_or_not>);
static_assert(transport<bare_transport> && transport<thread_communicator>);
static_assert(!transport<bare_channel> && !transport<opens_nothing> && !transport<without_limit> && !transport<cannot_fail>);
static_assert(!transport<gives_nothing_back> && !transport<sums_anywhere> && !transport<has_no_memory>);

TEST_CASE("a contribution counts once unless it says otherwise") {
  const contribution mine;
  CHECK(mine.scale == 1);
  CHECK(mine.weight == 0);
  CHECK(mine.buffer.count() == 0);
  const ticket first;
  CHECK((first.sequence == 0 && first.base == 0 && first.pieces == 1));
}

TEST_CASE("a place has the rank's number in the whole group if the transport says it") {
  const place plain = place_of(bare_transport{}, 3), part = place_of(part_of_another{}, 3, 7);
  CHECK((plain.rank == 3 && plain.step == -1 && plain.whole == -1));
  CHECK((part.rank == 3 && part.step == 7 && part.whole == 13));
}
