// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// One rank of a contestant in `peers`: sleeps in a pipe of its own until it is asked for a sample, so that one contestant at a time has
/// the cores.
///
/// The folder holds a pipe for each rank ("0", "1", …), in which a line "BYTES TIMES PRODUCED" asks for a sample, and one for the answers
/// of rank 0 ("answer"): seconds. TIMES 0 asks for a check instead, and the answer is the number of wrong elements on rank 0.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include <sys/mman.h>

#include "examples/bench/probe.hpp"
#include "examples/bench/yardstick.hpp"

namespace bench {

/// `all_reduce(float*, count)` sums in place over all ranks, `barrier()` waits for all of them. Returns when the pipe is closed.
template <class AllReduce, class Barrier>
void serve(const std::string& folder, int rank, int size, AllReduce&& all_reduce, Barrier&& barrier) {
  const auto now = [] { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); };
  pin_to(rank);
  std::ifstream asked(folder + "/" + std::to_string(rank));
  std::ofstream answer;
  if (rank == 0) answer.open(folder + "/answer");
  float* at = nullptr;
  std::size_t room = 0;
  constexpr std::size_t page = 2 << 20;
  std::size_t bytes = 0;
  int times = 0, produced = 0;
  while (asked >> bytes >> times >> produced) {
    const std::size_t n = bytes / sizeof(float);
    if (bytes > room) {
      std::free(at);
      room = (bytes + page - 1) / page * page;
      at = static_cast<float*>(std::aligned_alloc(page, room));
      madvise(at, room, MADV_HUGEPAGE);
    }
    produce(at, n, rank);
    if (times == 0) {
      all_reduce(at, n);
      long wrong = 0;
      for (std::size_t i = 0; i < n; ++i) wrong += at[i] != static_cast<float>(produced_sum(i, size));
      if (rank == 0) answer << wrong << std::endl;
      continue;
    }
    if (produced == 0) all_reduce(at, n);
    barrier();
    const double begin = now();
    for (int i = 0; i < times; ++i) all_reduce(at, n);
    if (produced != 0) keep(consume(at, n));
    const double seconds = (now() - begin) / times;
    if (rank == 0) answer << seconds << std::endl;
  }
  std::free(at);
}

}  // namespace bench
