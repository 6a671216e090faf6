// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0
#include "gradsync/collective/tuning.hpp"

#include <doctest/doctest.h>

#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "gradsync/collective/automatic.hpp"
#include "gradsync/collective/torus.hpp"
#include "gradsync/comm/threads.hpp"

using namespace gradsync;

namespace {

// A file of the test's own.
std::string written(const std::string& text) {
  const char* folder = std::getenv("TEST_TMPDIR");
  const std::string path = std::string(folder ? folder : "/tmp") + "/tuning_test.csv";
  std::ofstream(path) << text;
  return path;
}

std::string what_is_wrong(const std::string& line) {
  try {
    parse_tuning_table("# a table\n" + line + "\n", "t.csv");
  } catch (const usage_error& e) {
    return e.message();
  }
  return "nothing";
}

// What buffers of so many bytes run on `size` threads, by a table; or what is thrown, the same on all ranks.
std::string chosen(int size, const std::string& text, std::size_t bytes, tuned rule = {}) {
  rule.file = written(text);
  std::string said;
  thread_group(size).run([&](auto& comm) {
    std::string mine;
    try {
      const collective sum{comm, rule};
      const program& p = sum.steps(bytes);
      mine = p.name + " of " + std::to_string(p.chunks);
    } catch (const usage_error& e) {
      mine = e.message();
    }
    std::string rank0 = mine;
    rank0.resize(comm.broadcast(rank0.size()));
    comm.broadcast(std::span<char>(rank0.data(), rank0.size()));
    CHECK(mine == rank0);
    if (comm.rank() == 0) said = mine;
  });
  return said;
}

}  // namespace

TEST_CASE("a table is read as NCCL's example tuner reads its own") {
  const auto rows = parse_tuning_table(
      "# collective_type,min_bytes,max_bytes,algorithm,protocol,channels,nNodes,nRanks,numPipeOps,regBuff\n"
      "\n"
      "allreduce,0,4096,tree,ll128,2,-1,4,-1,-1\r\n"
      "broadcast,0,32768,nvls,simple,-1,1,-1\n"
      " allreduce , 4097 , 65536 , ring , simple , -1 , 2 , -1\n"
      "allreduce,0,100,ring,ll,-1,-1,-1,3,-1\n"
      "allreduce,65537,18446744073709551615,native,simple,-1,-1,-1,1,1",
      "t.csv");
  CHECK(rows == std::vector<tuning_row>{{.max_bytes = 4096, .strategy = "tree", .segments = 2, .ranks = 4, .line = 3},
                                        {.min_bytes = 4097, .max_bytes = 65536, .strategy = "ring", .hosts = 2, .line = 5},
                                        {.min_bytes = 65537, .line = 7}});
}

TEST_CASE("a wrong line is named, with what is wrong") {
  CHECK(what_is_wrong("allreduce,0,10,tree,simple,-1,-1") == "t.csv, line 2: 8 to 10 columns are needed, not 7");
  CHECK(what_is_wrong("allreduce,0,10,tree,simple,-1,-1,-1,-1,-1,-1") == "t.csv, line 2: more than 10 columns");
  CHECK(what_is_wrong("allsum,0,10,tree,simple,-1,-1,-1") == "t.csv, line 2: no collective is called 'allsum'");
  CHECK(what_is_wrong("allreduce,11,10,tree,simple,-1,-1,-1") == "t.csv, line 2: '11' to '10' are no numbers of bytes");
  CHECK(what_is_wrong("allreduce,-1,10,tree,simple,-1,-1,-1") == "t.csv, line 2: '-1' to '10' are no numbers of bytes");
  CHECK(what_is_wrong("allreduce,0,10,tree,quick,-1,-1,-1") == "t.csv, line 2: no protocol is called 'quick'");
  CHECK(what_is_wrong("allreduce,0,10,tree,simple,0,-1,-1") == "t.csv, line 2: channels must be -1 or a number above 0, not '0'");
  CHECK(what_is_wrong("allreduce,0,10,tree,simple,4x,-1,-1") == "t.csv, line 2: channels must be -1 or a number above 0, not '4x'");
  CHECK(what_is_wrong("allreduce,0,10,tree,simple,4,-1,all") == "t.csv, line 2: nNodes, nRanks, numPipeOps and regBuff must be numbers");
  CHECK(what_is_wrong("allreduce,0,10,nvls,simple,-1,-1,-1") ==
        "t.csv, line 2: no strategy is called 'nvls'; there are native, direct, recursive_doubling, halving_doubling, tree, double_tree "
        "and ring");
  CHECK(what_is_wrong("allreduce,0,10,ring,simple,2,-1,-1") == "t.csv, line 2: ring has no segments, so channels must be -1, not '2'");
  CHECK(what_is_wrong("allreduce,0,10,tree,simple,2,-1,-1") == "nothing");
  CHECK(what_is_wrong("allreduce,0,10,tree,simple,2,-1,-1 # ours") ==
        "t.csv, line 2: nNodes, nRanks, numPipeOps and regBuff must be numbers");  // not passed over as a comment
}

TEST_CASE("the first row that fits a buffer counts, and native where none does") {
  const std::string table =
      "allreduce,100,200,tree,simple,3,-1,2\n"
      "allreduce,100,300,tree,simple,5,-1,-1\n"
      "allreduce,150,5000,halving_doubling,simple,-1,-1,-1\n"
      "allreduce,150,9000,direct,simple,-1,3,-1\n";
  CHECK(chosen(2, table, 99) == "native of 2");
  CHECK(chosen(2, table, 100) == "tree of 3");
  CHECK(chosen(2, table, 200) == "tree of 3");
  CHECK(chosen(2, table, 201) == "tree of 5");
  CHECK(chosen(2, table, 300) == "tree of 5");
  CHECK(chosen(2, table, 301) == "halving_doubling of 2");
  CHECK(chosen(2, table, 5001) == "native of 2");
  CHECK(chosen(4, table, 200) == "tree of 5");  // the first row is for two ranks
  CHECK(chosen(2, table, 5001, {.file = "", .hosts = 3}) == "direct of 2");
  CHECK(chosen(3, "", 1000) == "native of 3");
}

TEST_CASE("what changes bits is refused, unless it is welcome") {
  const std::string ring = "allreduce,0,1000,ring,simple,-1,-1,-1\n";
  CHECK(chosen(3, ring, 8) == written(ring) + ", line 1: ring on 3 ranks is not canonical; any_order admits it");
  CHECK(chosen(3, ring, 8, {.file = "", .any_order = true}) == "ring of 3");
}

TEST_CASE("a folder is no table") {
  thread_group(2).run([](auto& comm) {
    CHECK_THROWS_WITH_AS((collective{comm, tuned{.file = "/tmp"}}), doctest::Contains("the tuning table /tmp can't be read"), usage_error);
  });
}

TEST_CASE("a file that is not there is told to every rank") {
  thread_group(3).run([](auto& comm) {
    const std::string message = "gradsync[rank " + std::to_string(comm.rank()) + "]: the tuning table /nowhere/tuning.csv can't be read";
    CHECK_THROWS_WITH_AS((collective{comm, tuned{.file = "/nowhere/tuning.csv"}}), message.c_str(), usage_error);
    CHECK(comm.all_reduce(1) == 3);
  });
}

TEST_CASE("what automatic has measured is chosen again from its table") {
  for (const int size : {1, 2, 3, 4}) {
    for (const bool pass : {true, false}) {
      const std::string path = written("");
      thread_group(size).run([&](auto& comm) {
        const collective measured{comm, automatic{.transport_pass = pass}};
        if (comm.rank() == 0) written(tuning_table(measured));
        comm.barrier();
        const collective again{comm, tuned{.file = path}};
        CHECK(summary(again) == summary(measured));
        CHECK(tuning_table(again) == tuning_table(measured));
      });
    }
  }
  thread_group(4).run([](auto& comm) {
    CHECK_THROWS_WITH_AS(tuning_table(collective{comm, torus{.columns = 2}}),
                         doctest::Contains("a tuning table knows no strategy that is called torus"), usage_error);
  });
}
