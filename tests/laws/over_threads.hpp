// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// One strategy, run for real: ranks are threads, which read each other's memory wherever they are.
///
///     TEST_CASE("my strategy gives the mean over threads") { gradsync::laws::over_threads(my_strategy{}); }
#pragma once

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <initializer_list>

#include "gradsync/collective/compile.hpp"
#include "gradsync/collective/schedule.hpp"
#include "gradsync/comm/threads.hpp"
#include "tests/laws/transport_laws.hpp"

namespace gradsync::laws {

/// The mean on every rank with guard words intact, to the bit if the strategy is canonical, and the same bits on all ranks in any case; for
/// each number of ranks that the strategy does not refuse.
template <strategy S>
void over_threads(const S& s, std::initializer_list<int> sizes = {2, 3, 4, 5, 6, 7, 8, 9, 12, 13, 16}) {
  int done = 0;
  for (const int size : sizes) {
    if (refusal(s, size) != nullptr) continue;
    ++done;
    thread_group(size).run([&s](auto& comm) {
      const program p = compile(s, comm.rank(), comm.size());
      const bool canonical = s.claim(comm.size()) == level::canonical;
      auto channel = comm.open(1);
      std::uint64_t seed = 0;
      for (const std::size_t count : {0u, 1u, 3u, 257u, 3001u})
        for (const numbers_kind kind : {numbers_kind::integers, numbers_kind::reals}) {
          mean_law<float>(comm, channel, p, canonical, {.count = count, .seed = ++seed, .kind = kind});
          mean_law<double>(comm, channel, p, canonical, {.count = count, .seed = ++seed, .kind = kind, .weighted = true});
        }
      if (comm.size() > 4) return;  // chunks of several pieces, the last one shorter
      const std::size_t count = 10'000 * static_cast<std::size_t>(p.chunks) - 777;
      mean_law<float>(comm, channel, p, canonical, {.count = count, .seed = ++seed, .weighted = true});
    });
  }
  CHECK(done > 0);
}

}  // namespace gradsync::laws
