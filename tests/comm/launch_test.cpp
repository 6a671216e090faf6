// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

#include "gradsync/comm/launch.hpp"

#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

using namespace gradsync;

namespace {

const environment nothing{std::vector<environment::variable>{}};

const environment torchrun = {{"RANK", "5"},
                              {"WORLD_SIZE", "8"},
                              {"LOCAL_RANK", "1"},
                              {"LOCAL_WORLD_SIZE", "4"},
                              {"TORCHELASTIC_RUN_ID", "run7"},
                              {"MASTER_ADDR", "node0"},
                              {"MASTER_PORT", "29500"}};

void expect_numbers(const launch& found, int rank, int size, int local_rank, int local_size) {
  CAPTURE(describe(found));
  CHECK(found.rank == rank);
  CHECK(found.size == size);
  CHECK(found.local_rank == local_rank);
  CHECK(found.local_size == local_size);
}

void expect_refusal(const environment& variables, const char* message, const launch_options& options = {}) {
  CHECK_THROWS_WITH_AS(find_launch(options, variables), message, usage_error);
}

}  // namespace

TEST_CASE("without any launcher the process is alone") {
  const launch found = find_launch({}, nothing);
  expect_numbers(found, 0, 1, 0, 1);
  CHECK(found.launcher.empty());
  CHECK(describe(found) == "rank 0 of 1, local rank 0 of 1, as no launcher was found");
}

TEST_CASE("torchrun's variables are found") {
  const launch found = find_launch({}, torchrun);
  expect_numbers(found, 5, 8, 1, 4);
  CHECK(found.job == "run7");
  CHECK(found.address == "node0:29500");
  CHECK(describe(found) ==
        "rank 5 of 8, local rank 1 of 4, job run7, meeting at node0:29500, from torchrun (RANK=5, WORLD_SIZE=8, LOCAL_RANK=1, "
        "LOCAL_WORLD_SIZE=4)");
}

TEST_CASE("Open MPI's variables are found") {
  const launch found = find_launch({}, {{"OMPI_COMM_WORLD_RANK", "2"},
                                        {"OMPI_COMM_WORLD_SIZE", "3"},
                                        {"OMPI_COMM_WORLD_LOCAL_RANK", "0"},
                                        {"OMPI_COMM_WORLD_LOCAL_SIZE", "1"},
                                        {"PMIX_NAMESPACE", "1926103041"}});
  expect_numbers(found, 2, 3, 0, 1);
  CHECK((found.launcher == "Open MPI" && found.job == "1926103041" && found.address.empty()));
}

TEST_CASE("Hydra's variables are found") {
  const launch found =
      find_launch({}, {{"PMI_RANK", "3"}, {"PMI_SIZE", "4"}, {"MPI_LOCALRANKID", "1"}, {"MPI_LOCALNRANKS", "2"}, {"PMI_FD", "8"}});
  expect_numbers(found, 3, 4, 1, 2);
  CHECK((found.launcher == "PMI" && found.job.empty()));
}

TEST_CASE("SLURM's variables are found, and the local size in its list of nodes") {
  const auto at = [](const char* rank, const char* local, const char* node) {
    return find_launch({}, {{"SLURM_JOB_ID", "4711"},
                            {"SLURM_STEP_ID", "0"},
                            {"SLURM_PROCID", rank},
                            {"SLURM_STEP_NUM_TASKS", "7"},
                            {"SLURM_LOCALID", local},
                            {"SLURM_NODEID", node},
                            {"SLURM_STEP_TASKS_PER_NODE", "2(x2),3"}});
  };
  expect_numbers(at("0", "0", "0"), 0, 7, 0, 2);
  expect_numbers(at("3", "1", "1"), 3, 7, 1, 2);
  expect_numbers(at("6", "2", "2"), 6, 7, 2, 3);
  CHECK(at("6", "2", "2").job == "4711.0");
  CHECK(at("6", "2", "2").from.ends_with("SLURM_STEP_TASKS_PER_NODE=2(x2),3 with SLURM_NODEID=2"));
  CHECK_THROWS_WITH_AS(at("6", "2", "3"), "gradsync: SLURM_STEP_TASKS_PER_NODE=2(x2),3 does not say how many tasks node SLURM_NODEID=3 has",
                       usage_error);
}

TEST_CASE("a list of SLURM's is read to the end, or refused") {
  CHECK(detail::slurm_tasks_of("4", 0) == 4);
  CHECK(detail::slurm_tasks_of("4,3", 1) == 3);
  CHECK(detail::slurm_tasks_of("4(x10),3(x2),1", 11) == 3);
  CHECK(detail::slurm_tasks_of("4(x10),3(x2),1", 12) == 1);
  for (const char* garbage : {"", "x", "2(x", "2(x)", "2(xa)", "2x3)", "2(x3", ",", "-1", "2(x1),"}) {
    CAPTURE(garbage);
    CHECK_FALSE(detail::slurm_tasks_of(garbage, 1));
  }
}

TEST_CASE("srun that speaks PMI is still SLURM, and knows the local ranks") {
  const launch found = find_launch({}, {{"PMI_RANK", "1"},
                                        {"PMI_SIZE", "2"},
                                        {"SLURM_JOB_ID", "8"},
                                        {"SLURM_STEP_ID", "1"},
                                        {"SLURM_PROCID", "1"},
                                        {"SLURM_STEP_NUM_TASKS", "2"},
                                        {"SLURM_LOCALID", "1"}});
  expect_numbers(found, 1, 2, 1, -1);
  CHECK((found.launcher == "SLURM" && found.job == "8.1"));
}

TEST_CASE("a nearer launcher hides those around it") {
  using list = std::vector<environment::variable>;
  const list launchers[] = {{{"RANK", "1"}, {"WORLD_SIZE", "11"}},
                            {{"OMPI_COMM_WORLD_RANK", "2"}, {"OMPI_COMM_WORLD_SIZE", "12"}},
                            {{"PMI_RANK", "3"}, {"PMI_SIZE", "13"}, {"MPI_LOCALRANKID", "0"}},
                            {{"SLURM_JOB_ID", "9"}, {"SLURM_STEP_ID", "0"}, {"SLURM_PROCID", "4"}, {"SLURM_STEP_NUM_TASKS", "14"}}};
  for (int nearest = 0; nearest < 4; ++nearest)
    for (int farther = nearest; farther < 4; ++farther) {
      list all = launchers[farther];
      all.insert(all.end(), launchers[nearest].begin(), launchers[nearest].end());
      const launch found = find_launch({}, environment(all));
      CHECK((found.rank == nearest + 1 && found.size == nearest + 11));
    }
}

TEST_CASE("a launcher inside a batch script of SLURM's counts, and so does what you set there") {
  const launch found = find_launch({}, {{"SLURM_JOB_ID", "9"}, {"SLURM_NTASKS", "2"}, {"RANK", "1"}, {"WORLD_SIZE", "2"}});
  expect_numbers(found, 1, 2, -1, -1);
  expect_numbers(find_launch({.rank = 1, .size = 2}, {{"SLURM_JOB_ID", "9"}, {"SLURM_NTASKS", "2"}}), 1, 2, -1, -1);
}

TEST_CASE("what a script exports for all its programs is not yet a launcher") {
  // MASTER_ADDR, MASTER_PORT and WORLD_SIZE come from the batch script, the rank from srun.
  const launch found = find_launch({}, {{"WORLD_SIZE", "2"},
                                        {"MASTER_ADDR", "::1"},
                                        {"MASTER_PORT", "4000"},
                                        {"SLURM_JOB_ID", "9"},
                                        {"SLURM_STEP_ID", "0"},
                                        {"SLURM_PROCID", "1"},
                                        {"SLURM_STEP_NUM_TASKS", "2"}});
  expect_numbers(found, 1, 2, -1, -1);
  CHECK(found.launcher == "SLURM");
  CHECK(found.address == "[::1]:4000");
}

TEST_CASE("an option goes before GRADSYNC_*, which goes before nothing") {
  const environment own = {{"GRADSYNC_RANK", "1"}, {"GRADSYNC_SIZE", "4"}, {"GRADSYNC_LOCAL_RANK", "0"},   {"GRADSYNC_LOCAL_SIZE", "2"},
                           {"GRADSYNC_JOB", "j"},  {"GRADSYNC_HOST", "h"}, {"GRADSYNC_ADDRESS", "file:/x"}};
  const launch by_variables = find_launch({}, own);
  expect_numbers(by_variables, 1, 4, 0, 2);
  CHECK(describe(by_variables) ==
        "rank 1 of 4, local rank 0 of 2, host h, job j, meeting at file:/x, from what you set (GRADSYNC_RANK=1, GRADSYNC_SIZE=4, "
        "GRADSYNC_LOCAL_RANK=0, GRADSYNC_LOCAL_SIZE=2)");
  const launch by_options =
      find_launch({.rank = 2, .size = 3, .local_rank = 1, .local_size = 3, .job = "k", .host = "i", .address = "node:1"}, own);
  expect_numbers(by_options, 2, 3, 1, 3);
  CHECK((by_options.job == "k" && by_options.host == "i" && by_options.address == "node:1"));
  CHECK(by_options.from == ".rank = 2, .size = 3, .local_rank = 1, .local_size = 3");
}

TEST_CASE("what you set completes what the launcher says") {
  const environment by_hand = {{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"GRADSYNC_LOCAL_RANK", "1"}, {"GRADSYNC_LOCAL_SIZE", "2"}};
  expect_numbers(find_launch({}, by_hand), 1, 2, 1, 2);
  expect_numbers(find_launch({.rank = 5, .job = "mine"}, torchrun), 5, 8, 1, 4);
  CHECK(find_launch({.job = "mine"}, torchrun).job == "mine");
}

TEST_CASE("what you set may not contradict the launcher") {
  CHECK_THROWS_WITH_AS(find_launch({.rank = 4}, torchrun),
                       "gradsync: you set .rank = 4, but the launcher says RANK=5; leave it to the launcher", usage_error);
  CHECK_THROWS_WITH_AS(find_launch({.local_size = 8}, torchrun),
                       "gradsync: you set .local_size = 8, but the launcher says LOCAL_WORLD_SIZE=4; leave it to the launcher",
                       usage_error);
  expect_refusal({{"GRADSYNC_SIZE", "3"}, {"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "2"}},
                 "gradsync: you set GRADSYNC_SIZE=3, but the launcher says OMPI_COMM_WORLD_SIZE=2; leave it to the launcher");
}

TEST_CASE("garbage is one clear line") {
  for (const char* garbage : {"abc", "-1", "1x", " 1", "+1", "1.0", "99999999999", "0x1"}) {
    const std::string said = std::string("gradsync: RANK=") + garbage + " is not a whole number from 0 on";
    expect_refusal({{"RANK", garbage}, {"WORLD_SIZE", "2"}}, said.c_str());
  }
  expect_refusal({{"RANK", "0"}, {"WORLD_SIZE", "0"}}, "gradsync: WORLD_SIZE=0: there must be at least one process");
  expect_refusal({{"RANK", "2"}, {"WORLD_SIZE", "2"}}, "gradsync: RANK=2 is none of the ranks 0 to 1 that WORLD_SIZE=2 has");
  expect_refusal({{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}, {"MPI_LOCALRANKID", "1"}, {"MPI_LOCALNRANKS", "1"}},
                 "gradsync: MPI_LOCALRANKID=1 is none of the local ranks 0 to 0 that MPI_LOCALNRANKS=1 has");
  expect_refusal({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"LOCAL_WORLD_SIZE", "3"}},
                 "gradsync: LOCAL_WORLD_SIZE=3: this host cannot have more processes than the whole job, WORLD_SIZE=2");
  CHECK_THROWS_WITH_AS(find_launch({.rank = -1, .size = 2}, nothing), "gradsync: .rank = -1: ranks count from 0", usage_error);
}

TEST_CASE("half a launch is refused") {
  expect_refusal({{"RANK", "0"}, {"OTHER", "2"}}, "gradsync: RANK=0 is said, but not how many processes there are");
  expect_refusal({{"WORLD_SIZE", "4"}, {"OTHER", "2"}}, "gradsync: WORLD_SIZE=4 is set, but RANK is not");
  expect_refusal({{"GRADSYNC_SIZE", "4"}, {"OTHER", "2"}},
                 "gradsync: GRADSYNC_SIZE=4 is said, "
                 "but not which of these processes this one is");
  expect_refusal({{"SLURM_JOB_ID", "1"}, {"SLURM_NTASKS", "4"}, {"SLURM_PROCID", "0"}},
                 "gradsync: SLURM has made room for 4 tasks (SLURM_NTASKS=4), but this process is none of them; "
                 "start the program with srun");
  expect_numbers(find_launch({}, {{"SLURM_JOB_ID", "1"}, {"SLURM_PROCID", "0"}}), 0, 1, 0, 1);  // a batch script of one task needs no srun
}

TEST_CASE("an empty variable counts as none") {
  expect_numbers(find_launch({}, {{"RANK", ""}, {"WORLD_SIZE", ""}, {"MASTER_ADDR", ""}}), 0, 1, 0, 1);
}

TEST_CASE("where the processes meet is checked, and torchrun's own store is passed by") {
  expect_refusal({{"MASTER_ADDR", "node0"}, {"OTHER", "1"}}, "gradsync: MASTER_ADDR=node0 is set, but MASTER_PORT is not");
  expect_refusal({{"MASTER_PORT", "1"}, {"OTHER", "1"}}, "gradsync: MASTER_PORT=1 is set, but MASTER_ADDR is not");
  for (const char* port : {"0", "65536", "http", "-1"}) {
    const std::string said = std::string("gradsync: MASTER_PORT=") + port + " is not a port";
    expect_refusal({{"MASTER_ADDR", "node0"}, {"MASTER_PORT", port}}, said.c_str());
  }
  const auto at = [](const char* store) {
    return find_launch({}, {{"MASTER_ADDR", "10.0.0.1"}, {"MASTER_PORT", "29500"}, {"TORCHELASTIC_USE_AGENT_STORE", store}}).address;
  };
  CHECK(at("False") == "10.0.0.1:29500");
  CHECK(at("True") == "10.0.0.1:29501");
}

TEST_CASE("MPI's own world must be the launcher's") {
  const launch found = find_launch({}, torchrun);
  CHECK(launch_in_mpi(found, 5, 8).local_rank == 1);
  CHECK_THROWS_WITH_AS(
      launch_in_mpi(find_launch({}, {{"PMI_RANK", "1"}, {"PMI_SIZE", "4"}}), 0, 1),
      "gradsync: this process is rank 1 of 4 by PMI_RANK=1, PMI_SIZE=4, but MPI sees rank 0 of 1; start the program with the "
      "mpirun of the MPI it was built with",
      usage_error);
  CHECK_THROWS_WITH_AS(launch_in_mpi(find_launch({.rank = 1, .size = 4}, nothing), 2, 4),
                       "gradsync: this process is rank 1 of 4 by .rank = 1, .size = 4, but MPI sees rank 2 of 4", usage_error);
  // A launcher that the table doesn't know: MPI knows it.
  const launch unknown = launch_in_mpi(find_launch({}, nothing), 3, 4);
  expect_numbers(unknown, 3, 4, -1, -1);
}

TEST_CASE("a process takes the CUDA device of its local rank, or the only one it sees") {
  const launch found = find_launch({}, torchrun);
  CHECK(cuda_device_of(found, 4) == 1);
  CHECK(cuda_device_of(found, 1) == 0);
  CHECK(cuda_device_of({.rank = 0, .size = 2}, 1) == 0);
  CHECK_THROWS_WITH_AS(cuda_device_of(found, 0), "gradsync[rank 5]: this process sees no CUDA device", usage_error);
  CHECK_THROWS_WITH_AS(cuda_device_of({.rank = 2, .size = 4, .local_rank = 2, .local_size = 4}, 2),
                       "gradsync[rank 2]: local rank 2 finds only 2 CUDA devices; start one process a device", usage_error);
  CHECK_THROWS_WITH_AS(cuda_device_of({.rank = 1, .size = 2}, 2), "gradsync[rank 1]: the local rank is not known; set GRADSYNC_LOCAL_RANK",
                       usage_error);
}

TEST_CASE("the process's own environment is read by default") {
  const char* path = std::getenv("PATH");
  REQUIRE(path != nullptr);
  CHECK(environment{}["PATH"] == std::string(path));
  CHECK_FALSE(environment{}["GRADSYNC_THERE_IS_NO_SUCH_VARIABLE"]);
}
