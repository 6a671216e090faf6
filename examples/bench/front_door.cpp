// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

// What the calls of a synchronizer cost by themselves: 400 parameters of 16 floats, and nothing, or next to nothing, to send.
//
//     bazel run -c opt //examples/bench:front_door
//
// "mark": one mark_ready() of a parameter that closes no bucket. "step": begin, 400 marks, finish. Medians, of rank 0.

#include <chrono>
#include <cstddef>
#include <iostream>
#include <string>
#include <vector>

#include "examples/bench/statistics.hpp"
#include "examples/bench/table.hpp"
#include "gradsync/gradsync.hpp"

namespace {

using gradsync::micro_step;

constexpr std::size_t parameters = 400, length = 16;
constexpr int steps = 2001;

struct parameter {
  std::vector<float> value, grad;
};
struct model {
  std::vector<parameter> layers;
};

struct door {
  const char* name;
  int ranks;
  gradsync::synchronizer_options options;
  micro_step kind = micro_step::last;
};

double now_ns() { return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

void measure(const door& d, bench::table& rows) {
  gradsync::thread_group{d.ranks}.run([&](auto& comm) {
    model net;
    for (std::size_t i = 0; i < parameters; ++i) net.layers.push_back({std::vector<float>(length, 1.0f), std::vector<float>(length, 1.0f)});
    gradsync::synchronizer sync{net, comm, d.options};
    std::vector<double> begin, mark, finish, step;
    for (int s = 0; s < steps; ++s) {
      const double called = now_ns();
      sync.begin({.weight = 2, .micro_step = d.kind});
      const double begun = now_ns();
      for (std::size_t i = parameters; i-- > 1;) sync.mark_ready(net.layers[i]);
      const double marked = now_ns();
      sync.mark_ready(net.layers[0]);
      const double last = now_ns();
      sync.finish();
      const double finished = now_ns();
      begin.push_back(begun - called);
      mark.push_back((marked - begun) / (parameters - 1));
      finish.push_back(finished - last);
      step.push_back((finished - called) * 1e-3);
      if (d.kind == micro_step::more && s % 4 == 3) sync.contribute_nothing();
      comm.barrier();
    }
    if (comm.rank() == 0)
      rows.add({std::string(d.name), std::int64_t{d.ranks}, bench::median(mark), bench::median(begin), bench::median(finish),
                bench::median(step)});
  });
}

}  // namespace

int main() {
  using gradsync::accumulation_mode, gradsync::layout;
  bench::table rows{{{"what"}, {"ranks"}, {"mark", "ns"}, {"begin", "ns"}, {"finish", "ns"}, {"step", "us"}}};
  for (const door& d : std::vector<door>{
           {"nothing to send: one rank", 1, {}},
           {"the same, packed", 1, {.layout = layout::packed}},
           {"nothing to send: a micro-step of more, plain", 2, {.accumulation = accumulation_mode::plain}, micro_step::more},
           {"the same, tree", 2, {}, micro_step::more},
           {"one bucket to sum", 2, {}},
           {"the same, packed", 2, {.layout = layout::packed}},
           {"seven buckets to sum", 2, {.bucket_bytes = 4096}},
       })
    measure(d, rows);
  rows.print(std::cout);
}
