// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

// How do I start the same training as threads, under mpirun, srun or
// torchrun, and on GPUs?
//
//     bazel run //examples:13_launching                    # threads
//     mpirun -np 4 bazel-bin/examples/13_launching         # MPI's processes
//     srun -n 4 bazel-bin/examples/13_launching            # the same, by SLURM
//     torchrun --no_python --nproc_per_node 4 bazel-bin/examples/13_launching
//
// A rank's function takes any communicator; only the group differs. MPI is
// for one host or many. Without MPI the processes of one host share memory:
// torchrun starts them, or you, in four shells with RANK=0, 1, 2 and 3:
//
//     MASTER_ADDR=127.0.0.1 MASTER_PORT=29500 WORLD_SIZE=4 RANK=0 13_launching
//
// On GPUs, with any of these launchers, a process takes the device of its
// local rank: `gradsync::nccl_communicator comm{me};`, then train(comm).

#include <cstdio>
#include <vector>

#include "gradsync/comm/processes.hpp"
#include "gradsync/gradsync.hpp"
#ifdef WITH_MPI  // by the build, where an MPI is installed
#include "gradsync/comm/mpi.hpp"
#endif

struct param {
  std::vector<float> value, grad;
};
struct model {
  param slope{.value = {0}, .grad = {0}};
};

// Learns y = 3x from an example of each rank.
template <class Communicator>
void train(Communicator& comm, const char* kind) {
  model net;
  gradsync::synchronizer sync{net, comm};
  const float x = static_cast<float>(comm.rank() + 1);
  for (int update = 0; update < 20; ++update) {
    net.slope.grad[0] = (net.slope.value[0] - 3) * x * x;
    sync.mark_ready(net.slope);
    sync.finish();
    net.slope.value[0] -= 0.1f * net.slope.grad[0];
  }
  const float own = net.slope.value[0];
  const bool same = comm.all_reduce(own, gradsync::reduce_op::min) ==
                    comm.all_reduce(own, gradsync::reduce_op::max);
  if (comm.rank() == 0)
    std::printf("%d %s: slope %.4f, %s\n", comm.size(), kind, own,
                same ? "the same on all" : "not the same");
}

int main() {
  // Your own GRADSYNC_*, torchrun, Open MPI, MPICH or SLURM; or nobody.
  const gradsync::launch me = gradsync::find_launch();
  if (me.size == 1) {
    gradsync::thread_group{4}.run([](auto& comm) { train(comm, "threads"); });
    return 0;
  }
#ifdef WITH_MPI
  if (!me.launcher.empty() && me.launcher != "torchrun") {
    gradsync::mpi_group{}.run([](auto& comm) { train(comm, "MPI ranks"); });
    return 0;
  }
#endif
  const auto body = [](auto& comm) { train(comm, "processes"); };
  gradsync::process_group{me}.run(body);
}

// Next: train_fashion trains a real model.
