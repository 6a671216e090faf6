// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

#include "gradsync/comm/shared_memory.hpp"

#include <doctest/doctest.h>

#include <sys/wait.h>

#include <algorithm>
#include <cstring>

using namespace gradsync;
using namespace gradsync::detail;

TEST_CASE("a piece is zeroed, aligned and apart from others, and is used again when it was given back") {
  const auto heap = std::make_shared<shared_heap>(std::make_shared<shared_segment>(), 100);
  std::byte* first = nullptr;
  {
    const aligned_bytes a = heap->allocate(5000), b = heap->allocate(1), c = heap->allocate(64);
    first = a.data();
    CHECK(heap->segment().offset(first) >= 100);
    for (const aligned_bytes* one : {&a, &b, &c}) {
      CHECK(reinterpret_cast<std::uintptr_t>(one->data()) % 256 == 0);
      CHECK(heap->segment().holds(one->data(), one->size()));
      CHECK(std::all_of(one->data(), one->data() + one->size(), [](std::byte x) { return x == std::byte{}; }));
      std::memset(one->data(), 0xff, one->size());
    }
    CHECK(b.data() >= a.data() + 5000);
    CHECK(c.data() > b.data());
  }
  const aligned_bytes all = heap->allocate(3 * 4096 + 5000);  // larger than each of them: they are one piece again
  CHECK(all.data() == first);
  CHECK(std::all_of(all.data(), all.data() + all.size(), [](std::byte x) { return x == std::byte{}; }));
  CHECK(heap->allocate(0).data() == nullptr);
  CHECK_FALSE(heap->segment().holds(all.data(), heap->segment().bytes()));
  CHECK_THROWS_AS(heap->allocate(heap->segment().bytes()), transport_error);
}

TEST_CASE("a piece outlives its heap, and is not emptied when the heap was closed") {
  auto heap = std::make_shared<shared_heap>(std::make_shared<shared_segment>(), 0);
  aligned_bytes piece = heap->allocate(10);
  const std::weak_ptr<shared_heap> seen = heap;
  piece.data()[9] = std::byte{7};
  heap->close();
  heap.reset();
  CHECK(piece.data()[9] == std::byte{7});
  piece = {};
  CHECK(seen.expired());
}

TEST_CASE("another process sees what was written, and writes too, and then nothing is left") {
  const shared_segment own;
  own.data()[0] = std::byte{1};
  const pid_t parent = getpid(), child = fork();
  if (child == 0) {
    const shared_segment theirs(parent, own.file(), own.bytes(), "rank 0");
    const bool same = theirs.data() != own.data() && theirs.data()[0] == std::byte{1};
    theirs.data()[1] = std::byte{2};
    _exit(same ? 0 : 1);
  }
  int how = 0;
  REQUIRE(waitpid(child, &how, 0) == child);
  CHECK((WIFEXITED(how) && WEXITSTATUS(how) == 0));
  CHECK(own.data()[1] == std::byte{2});
}

TEST_CASE("memory that cannot be reached is one clear line") {
  CHECK_THROWS_WITH_AS(
      shared_segment(getpid(), 9999, 4096, "rank 3"),
      ("gradsync: the memory of rank 3 (process " + std::to_string(getpid()) +
       ") cannot be reached: No such file or directory; processes that share memory need one user and one process namespace")
          .c_str(),
      transport_error);
}
