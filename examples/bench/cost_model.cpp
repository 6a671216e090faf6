// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

// How near do `cost` and `simulate` come to what an all-reduce between threads really takes?
//
//     bazel run -c opt //examples/bench:cost_model
//
// Calibrates α, β and γ (collective/calibrate.hpp), predicts, and measures: for each number of ranks five times a calibration and then all
// cells in turn, of all of which the lower quartiles are printed. The last column is measured / simulated (native: measured / cost, which
// for the transport's own pass is its calibrated line).
//
// Measured 2026-11-30 on 2 idle cores of an AMD EPYC (Zen 3, virtual, 32 MiB L3), g++ 12 -O2, one run of the command above;
// measured / predicted was
//   2 ranks, 4 KiB to 1 MiB   0.9 to 1.9 (native 0.9 to 1.2)
//   2 ranks, 4 MiB            0.95 to 1.65 (native 1.4): the link is calibrated with buffers of 768 KiB, and these do not stay in a cache
//   2 ranks, 16 MiB           2.2 to 3.8: likewise
//   4 ranks to 1 MiB          native 0.97 to 1.13, ring and halving_doubling about 1 (0.76 at 4 KiB)
//   4 ranks, tree to 1 MiB    0.3 to 0.6: with more ranks than cores ranks take turns. The link is that of all ranks busy at once, so it
//                             is too slow for a strategy in which most ranks wait. The model needs a core for each rank.
//   4 ranks, 16 MiB           1.4 (native) to 3.4

#include <algorithm>
#include <cstdio>
#include <vector>

#include "gradsync/gradsync.hpp"

namespace {

constexpr std::size_t smallest = 4 << 10, largest = 16 << 20;
constexpr int blocks = 5, repeats = 5;

// What disturbs a run makes it longer, never shorter.
double lower_quartile(std::vector<double> of) {
  std::nth_element(of.begin(), of.begin() + static_cast<std::ptrdiff_t>(of.size() / 4), of.end());
  return of[of.size() / 4];
}

// Everything that one strategy adds to the table.
struct row {
  gradsync::program steps;
  std::size_t bytes;
  double (*predict)(const gradsync::calibration& here, std::size_t bytes);
  double (*walk)(const gradsync::calibration& here, std::size_t bytes);
  std::vector<double> cost{}, simulated{}, measured{};
};

template <class Strategy>
void add_rows(std::vector<row>& table, int rank, int size) {
  for (std::size_t bytes = smallest; bytes <= largest; bytes *= 4)
    table.push_back({gradsync::compile(Strategy{}, rank, size), bytes,
                     [](const gradsync::calibration& here, std::size_t n) { return here.seconds(Strategy{}, static_cast<double>(n)); },
                     [](const gradsync::calibration& here, std::size_t n) {
                       return gradsync::simulate(Strategy{}, gradsync::flat(here.wire), here.size, n).seconds;
                     }});
}

void print(const row& r) {
  const double cost = lower_quartile(r.cost), simulated = lower_quartile(r.simulated), measured = lower_quartile(r.measured);
  const bool fused = r.steps.fused;
  std::printf("%5d  %-16s %9zu %11.1f ", r.steps.size, r.steps.name.c_str(), r.bytes, cost * 1e6);
  fused ? std::printf("%11s ", "-") : std::printf("%11.1f ", simulated * 1e6);
  std::printf("%11.1f %9.2f\n", measured * 1e6, measured / (fused ? cost : simulated));
}

void compare(int size) {
  gradsync::thread_group{size}.run([size](auto& comm) {
    std::vector<row> table;
    add_rows<gradsync::ring>(table, comm.rank(), size);
    add_rows<gradsync::halving_doubling>(table, comm.rank(), size);
    add_rows<gradsync::tree>(table, comm.rank(), size);
    add_rows<gradsync::native>(table, comm.rank(), size);
    gradsync::stopwatch watch{comm, largest};
    gradsync::calibration here;
    for (int block = 0; block < blocks; ++block) {
      here = gradsync::calibrate(comm);
      for (row& r : table) {
        r.cost.push_back(r.predict(here, r.bytes));
        r.simulated.push_back(r.walk(here, r.bytes));
        for (int i = 0; i < repeats; ++i) r.measured.push_back(watch.time(r.steps, r.bytes));
      }
    }
    if (comm.rank() != 0) return;
    std::printf("%d ranks, last calibration: alpha %.3f us, beta %.4f ns/byte, gamma %.4f ns/byte; pass %.3f us, %.4f ns/byte\n", size,
                here.wire.alpha * 1e6, here.wire.beta * 1e9, here.wire.gamma * 1e9, here.pass->alpha * 1e6, here.pass->beta * 1e9);
    std::printf("ranks  strategy             bytes     cost us simulate us measured us     ratio\n");
    for (const row& r : table) print(r);
  });
}

}  // namespace

int main() {
  for (const int size : {2, 4}) compare(size);
}
