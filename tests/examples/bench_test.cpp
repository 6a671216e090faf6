// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

// What the bench programs print, on buffers that are too small for their times to mean something.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <sstream>
#include <string>
#include <variant>
#include <vector>

#include "examples/bench/measure.hpp"
#include "examples/bench/options.hpp"
#include "examples/bench/regret.hpp"
#include "examples/bench/report.hpp"
#include "gradsync/collective/native.hpp"
#include "gradsync/collective/ring.hpp"
#include "gradsync/comm/threads.hpp"

namespace {

bench::command_line parse(std::initializer_list<const char*> arguments) {
  std::vector<const char*> all{"allreduce"};
  all.insert(all.end(), arguments);
  return bench::parse_command_line("allreduce", static_cast<int>(all.size()), all.data());
}

bench::measured measure(const bench::options& chosen) {
  bench::measured all{.rank = 0, .size = chosen.ranks, .transport = "threads", .rows = {}};
  gradsync::thread_group{chosen.ranks}.run([&](auto& comm) {
    auto rows = bench::measure(comm, chosen);
    if (comm.rank() == 0) all.rows = std::move(rows);
  });
  return all;
}

}  // namespace

TEST_CASE("sizes are given with units, and what is wrong is told in one line") {
  const auto asked = parse({"--least", "4K", "-e", "1M", "-s", "ring,tree", "--mode", "both", "-o", "avg", "-n", "3"});
  CHECK(asked.text.empty());
  CHECK(asked.chosen.least_bytes == 4096);
  CHECK(asked.chosen.most_bytes == 1 << 20);
  CHECK(asked.chosen.strategies == std::vector<std::string>{"ring", "tree"});
  CHECK((asked.chosen.hot && asked.chosen.produced && asked.chosen.mean));
  for (const char* wrong : {"0", "3", "5K1", "1T", "-4"}) {
    const auto refused = parse({"--least", wrong});
    CHECK(refused.exit_code == 2);
    CHECK(refused.text == "allreduce: --least: '" + std::string(wrong) + "' is not a number of bytes, of floats, up to 64G: 256, 4K, 1M");
  }
  CHECK(parse({"-b", "4K", "-e", "1K"}).text == "allreduce: --least: the smallest buffer is larger than the largest");
  CHECK(parse({"--strategy", "telepathy"}).exit_code == 2);
}

TEST_CASE("every strategy sums right, over any number of ranks, and gets a row a size, mode and placement") {
  for (const int ranks : {1, 2, 3})
    for (const bool mean : {false, true}) {
      bench::options chosen;
      chosen.ranks = ranks;
      chosen.least_bytes = 4;
      chosen.most_bytes = 4096;
      chosen.factor = 32;
      chosen.samples = 2;
      chosen.mean = mean;
      chosen.produced = true;
      chosen.strategies = {"native", "ring", "halving_doubling", "tree"};
      const bench::measured all = measure(chosen);
      CHECK(all.rows.size() >= 3 * 2 * chosen.strategies.size());
      for (const bench::row& r : all.rows) {
        CHECK(r.wrong == 0);
        CHECK(r.seconds > 0);
        CHECK(r.limit >= r.yardstick * 0.999);
      }
    }
}

TEST_CASE("the table has the columns of nccl-tests, and JSON has the same") {
  const bench::options chosen;
  const bench::measured all{.rank = 0,
                            .size = 2,
                            .transport = "threads",
                            .rows = {{.bytes = 4000,
                                      .strategy = "automatic",
                                      .algorithm = "ring",
                                      .produced = false,
                                      .where = bench::placement::near,
                                      .count = 7,
                                      .seconds = 2e-6,
                                      .yardstick = 1e-6,
                                      .limit = 1.25e-6,
                                      .wrong = 0}}};
  const bench::table shown = bench::table_of(all, chosen);
  std::ostringstream text;
  shown.print(text);
  CHECK(text.str() ==
        "# size  count  type   redop  strategy   runs  mode  cores  samples  time   algbw   busbw  #wrong  limit  limit\n"
        "#  (B)                                                              (us)  (GB/s)  (GB/s)           (us)    (%)\n"
        "  4000   1000  float  sum    automatic  ring  hot   near         7  2.00    2.00    2.00       0   1.25   62.5\n");
  const auto file = std::filesystem::temp_directory_path() / "gradsync_bench_test.json";
  bench::write_json(file.string(), {{"cpus", std::int64_t{2}}}, shown);
  std::ifstream from(file);
  std::stringstream json;
  json << from.rdbuf();
  for (const char* part : {"\"cpus\": 2", "\"size_B\": 4000", "\"time_us\": 2.0", "\"#wrong\": 0", "\"limit_percent\": 62.5"})
    CHECK_MESSAGE(json.str().find(part) != std::string::npos, part << " is not in " << json.str());
  std::filesystem::remove(file);
  CHECK_THROWS_WITH(bench::write_json("/nowhere/x.json", {}, shown), "/nowhere/x.json could not be written");
}

TEST_CASE("a program moves what its operations read and write") {
  CHECK(bench::traffic(gradsync::compile(gradsync::native{}, 0, 2)) == 2);
  CHECK(bench::traffic(gradsync::compile(gradsync::ring{}, 0, 2)) == doctest::Approx(2.5));  // 5 (p-1)/p
  CHECK(bench::traffic(gradsync::compile(gradsync::ring{}, 3, 4)) == doctest::Approx(3.75));
}

TEST_CASE("a label is near or far only when both probes say so") {
  CHECK(bench::placement_between(100, 120) == bench::placement::near);
  CHECK(bench::placement_between(390, 370) == bench::placement::far);
  CHECK(bench::placement_between(100, 390) == bench::placement::mixed);
  CHECK(bench::placement_between(-1, -1) == bench::placement::alone);
}

TEST_CASE("medians and digits") {
  CHECK(bench::median({3, 1, 2}) == 2);
  CHECK(bench::median({}) == 0);
  CHECK(bench::digits(0.01234) == "0.012");
  CHECK(bench::digits(1234.6) == "1235");
}

TEST_CASE("the regret of a choice is never below zero, and the best candidate's is zero") {
  bench::options chosen;
  chosen.ranks = 3;
  chosen.least_bytes = 256;
  chosen.most_bytes = 4096;
  chosen.factor = 16;
  chosen.samples = 2;
  const auto found = bench::regret::measure(chosen);
  CHECK(found.all.size() == 5);  // the canonical ones
  CHECK(found.by[0].seconds.size() == 2);
  const bench::table shown = bench::regret::table_of(found, 3);
  CHECK(shown.rows().size() >= 4);
  std::size_t of_all = 0;
  for (const auto& row : shown.rows()) {
    CHECK(std::get<double>(row[8]) >= 0);
    if (row[5] == row[7] && row[3] == bench::cell(std::int64_t{1})) CHECK(std::get<double>(row[8]) == 0);
    of_all += std::get<std::string>(row[4]) == "all";
    if (std::get<std::string>(row[4]) != "all") CHECK(std::get<std::string>(row[5]) != "native");
  }
  CHECK(2 * of_all == shown.rows().size());
}
