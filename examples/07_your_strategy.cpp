// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

// How do I write an all-reduce strategy of my own, and who tells me when it is wrong?
//
//     bazel run //examples:07_your_strategy
//
// A strategy says how many chunks it cuts a buffer into, how many rounds it takes, and what a rank sends and receives in each: data, no
// input or output. Everything else follows: the proof that it is complete and cannot deadlock (at compile time if you like), how
// reproducible its bits are, its cost, its table, and that it runs on every transport, overlapped with backward.

#include <iostream>
#include <vector>

#include "gradsync/gradsync.hpp"

using gradsync::effect, gradsync::level, gradsync::receive, gradsync::send;

// Ranks stand in a line. Sums walk down to rank 0, the result walks up again; one segment follows the other, so all ranks work at once.
struct chain {
  int segments = 4;

  constexpr const char* name() const { return "chain"; }
  constexpr level claim(int size) const { return size <= 2 ? level::canonical : level::uniform; }
  constexpr int chunks(int) const { return segments; }
  constexpr int rounds(int size) const { return size > 1 ? 2 * (size - 1) + segments - 1 : 0; }

  template <class Post>
  constexpr void round(int k, int rank, int size, Post&& post) const {
    const int down = k - (size - 1 - rank), up = k - (size - 1 + rank);  // the segments that are at this rank on their two ways
    const auto exists = [this](int segment) { return segment >= 0 && segment < segments; };
    if (rank > 0 && exists(down)) post(send{rank - 1, down, 1});
    if (rank < size - 1 && exists(down + 1)) post(receive{rank + 1, down + 1, 1, effect::add});
    if (rank < size - 1 && exists(up)) post(send{rank + 1, up, 1});
    if (rank > 0 && exists(up + 1)) post(receive{rank - 1, up + 1, 1, effect::copy});
  }
};
static_assert(gradsync::verify(chain{}, 5).holds());

// The same with an off-by-one that every transport would turn into a wrong gradient on one rank.
struct short_chain : chain {
  constexpr const char* name() const { return "short_chain"; }
  constexpr int rounds(int size) const { return chain::rounds(size) - 1; }
};
static_assert(!gradsync::verify(short_chain{}, 4).holds());

// And one whose two ends do not fit together: it would hang.
struct deaf_chain : chain {
  constexpr const char* name() const { return "deaf_chain"; }
  template <class Post>
  constexpr void round(int k, int rank, int size, Post&& post) const {
    chain::round(k, rank, size, [&](auto message) {
      if (!(k == 4 && rank == 2)) post(message);
    });
  }
};
static_assert(!gradsync::verify(deaf_chain{}, 4).holds());

struct param {
  std::vector<float> value, grad;
};

int main() {
  std::cout << gradsync::print(chain{.segments = 2}, 3) << '\n';
  std::cout << "short_chain: " << describe(gradsync::verify(short_chain{}, 4).first) << '\n';
  gradsync::thread_group{4}.run([](auto& comm) {
    try {
      gradsync::collective wrong{comm, deaf_chain{}};
    } catch (const gradsync::usage_error& e) {
      if (comm.rank() == 0) std::cout << e.what() << '\n';
    }
    param net{{0, 0, 0, 0, 0}, std::vector<float>(5, static_cast<float>(comm.rank()))};
    gradsync::synchronizer sync{net, gradsync::collective{comm, chain{}}};
    sync.mark_all_ready();
    sync.finish();
    if (comm.rank() == 3) std::cout << "chain on 4 ranks: the mean of 0, 1, 2, 3 is " << net.grad[0] << '\n';
  });
}

// Next: 08_simulator asks what a strategy would cost on a thousand ranks.
