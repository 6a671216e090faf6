// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

// A process on one of the hosts of tests/mpi/hosts.cpp.
//
//     on_host measure          # rank 0 prints what strategies take between the hosts
//     on_host train FOLDER     # updates without end; FOLDER/began when they go on, FOLDER/N has the process of rank N and its last words
//     on_host meet             # no MPI: who is in the job, by a rendezvous
//     on_host share            # no MPI: a process_group
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

#include "gradsync/collective/halving_doubling.hpp"
#include "gradsync/collective/over_hosts.hpp"
#include "gradsync/collective/ring.hpp"
#include "gradsync/comm/mpi.hpp"
#include "gradsync/comm/processes.hpp"
#include "gradsync/comm/rendezvous.hpp"
#include "gradsync/synchronizer.hpp"
#include "tests/sync/models.hpp"

namespace {

using namespace gradsync;
using namespace std::chrono_literals;

// Milliseconds of an update of one bucket: the median of some, of the slowest rank.
double milliseconds(mpi_communicator& comm, const collective<mpi_communicator>& sum, std::size_t count) {
  test::layers net = test::make_layers({count});
  synchronizer sync{net, sum, {.replan = replan::never}};
  std::vector<double> took;
  for (int update = 0; update < 3; ++update) {
    net.layer[0].grad.assign(count, 1);
    comm.barrier();
    const auto begin = std::chrono::steady_clock::now();
    sync.mark_ready(net.layer[0]);
    sync.finish();
    took.push_back(
        comm.all_reduce(std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count(), reduce_op::max));
  }
  std::sort(took.begin(), took.end());
  return took[took.size() / 2];
}

void measure() {
  mpi_group{{.deadline = 20s}}.run([](auto& comm) {
    const std::uint64_t host = host_id();
    const host_map map = find_hosts(comm, host);
    if (comm.rank() == 0) std::cout << describe(map) << "     bytes   over_hosts       native         ring   halving_doubling (ms)\n";
    for (const std::size_t count : {1u << 10, 1u << 14, 1u << 18}) {
      const double took[] = {milliseconds(comm, {comm, over_hosts<>{.host = host}}, count), milliseconds(comm, {comm, native{}}, count),
                             milliseconds(comm, {comm, ring{}}, count), milliseconds(comm, {comm, halving_doubling{}}, count)};
      if (comm.rank() == 0) std::printf("%10zu %12.3f %12.3f %12.3f %12.3f\n", 4 * count, took[0], took[1], took[2], took[3]);
    }
    std::fflush(stdout);
  });
}

int train(const std::string& folder) {
  const std::string own = folder + "/" + std::to_string(find_launch().rank);
  std::FILE* const said = std::fopen(own.c_str(), "w");
  std::fprintf(said, "%d\n", static_cast<int>(getpid()));
  std::fflush(said);
  std::setvbuf(said, nullptr, _IOLBF, 0);
  try {
    mpi_group{{.deadline = 2s, .errors = said}}.run([&](auto& comm) {
      test::layers net = test::make_layers({50'000, 100'000});
      synchronizer sync{net, collective{comm, over_hosts<>{.host = host_id()}}};
      for (int update = 0;; ++update) {
        for (test::param& p : net.layer) p.grad.assign(p.value.size(), 1), sync.mark_ready(p);
        sync.finish();
        if (update == 5 && comm.rank() == 0) std::ofstream(folder + "/began") << "yes\n";
      }
    });
  } catch (const std::exception&) {  // run() has said it
  }
  return 1;
}

void meet() {
  const launch me = find_launch();
  rendezvous all(me, 20s);
  const auto said = all.all_gather(std::to_string(host_id()) + "/" + std::to_string(me.rank));
  std::cout << "job " << me.job << " rank " << me.rank << ":";
  for (std::size_t rank = 0; rank < said.size(); ++rank)
    std::cout << (said[rank] == std::to_string(host_id()) + "/" + std::to_string(rank) ? " here" : " there");
  std::cout << std::endl;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  try {
    if (what == "measure") measure();
    else if (what == "train" && argc > 2) return train(argv[2]);
    else if (what == "meet") meet();
    else if (what == "share") process_group{find_launch(), {.deadline = 20s}}.run([](auto&) {});
    else return 2;
    return 0;
  } catch (const std::exception& e) {
    std::cerr << e.what() << std::endl;
    return 1;
  }
}
