// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

// The programs that time training: their options, and the columns of what they print. No time is looked at.
#include "examples/bench/training.hpp"

#include <doctest/doctest.h>

#include <initializer_list>
#include <sstream>
#include <string>
#include <vector>

namespace {

using bench::training_program;

struct ran {
  int exit_code;
  std::string out, errors;
};

ran run(training_program which, std::initializer_list<const char*> arguments) {
  std::vector<const char*> all{"program"};
  all.insert(all.end(), arguments);
  std::ostringstream out, errors;
  const int exit_code = bench::run_training(which, static_cast<int>(all.size()), all.data(), out, errors);
  return {exit_code, out.str(), errors.str()};
}

bench::training_options small() {
  bench::training_options chosen;
  chosen.side = 6;
  chosen.hidden = {8, 8};
  chosen.batch = 8;
  chosen.examples = 64;
  chosen.updates = 3;
  chosen.repeats = 1;
  chosen.bucket_bytes = 512;
  return chosen;
}

std::vector<std::string> names(const bench::table& of) {
  std::vector<std::string> all;
  for (const bench::column& c : of.columns()) all.push_back(c.name);
  return all;
}

template <class T>
T at(const bench::table& of, std::size_t row, std::size_t column) {
  return std::get<T>(of.rows().at(row).at(column));
}

}  // namespace

TEST_CASE("a bad option is one line that names it, on the stream for errors") {
  const ran none = run(training_program::scaling, {"--ranks", "0"});
  CHECK(none.exit_code == 2);
  CHECK(none.out.empty());
  CHECK(none.errors == "scaling: --ranks: '0' is not a whole number from 1 to 64\n");
  CHECK(run(training_program::scaling, {"--ranks", "4", "--batch", "64", "--examples", "255"}).errors ==
        "scaling: --examples: 255 are fewer than one update of 4 ranks takes\n");
  CHECK(run(training_program::overlap, {"--progress", "fast"}).errors ==
        "overlap: --progress: 'fast' is none of automatic, thread, at-marks\n");
  CHECK(run(training_program::step, {"--data", "/nowhere"}).exit_code == 1);
  CHECK(run(training_program::overlap, {"--micro-steps", "2"}).exit_code == 2);  // an option of `step` alone
}

TEST_CASE("--help goes to where results go") {
  const ran help = run(training_program::overlap, {"--help"});
  CHECK(help.exit_code == 0);
  CHECK(help.errors.empty());
  CHECK(help.out.find("--bucket-bytes") != std::string::npos);
}

TEST_CASE("scaling has a row for each training and for each of its buckets, and the same loss at the same batch") {
  const bench::training_outcome seen = bench::measure_scaling(small());
  CHECK(names(seen.rows) == std::vector<std::string>{"scaling", "ranks", "examples", "placement", "throughput", "efficiency", "test loss",
                                                     "bucket", "size", "communication", "exposed"});
  std::vector<std::string> trainings;
  double strong = 0;
  for (std::size_t r = 0; r < seen.rows.rows().size(); ++r) {
    if (at<std::string>(seen.rows, r, 7) != "all") continue;
    trainings.push_back(at<std::string>(seen.rows, r, 0) + std::to_string(at<std::int64_t>(seen.rows, r, 1)) + " " +
                        std::to_string(at<std::int64_t>(seen.rows, r, 2)));
    CHECK(at<double>(seen.rows, r, 4) > 0);
    if (trainings.size() == 1) strong = at<double>(seen.rows, r, 6);
    // Two halves of a batch are summed in another order than the whole.
    if (trainings.size() == 2) CHECK(at<double>(seen.rows, r, 6) == doctest::Approx(strong).epsilon(1e-4));
  }
  CHECK(trainings == std::vector<std::string>{"strong1 8", "strong2 8", "weak1 8", "weak2 16"});
}

TEST_CASE("overlap has a row for each bucket, whose events come one after the other") {
  const bench::training_outcome seen = bench::measure_overlap(small());
  CHECK(names(seen.rows) ==
        std::vector<std::string>{"bucket", "size", "strategy", "ready", "start", "end", "needed", "communication", "exposed", "exposed"});
  REQUIRE(seen.rows.rows().size() > 1);
  for (std::size_t r = 0; r < seen.rows.rows().size(); ++r) {
    CHECK(at<std::string>(seen.rows, r, 2) == "native");
    CHECK(at<double>(seen.rows, r, 3) > 0);
    CHECK(at<double>(seen.rows, r, 5) > at<double>(seen.rows, r, 3));
  }
}

TEST_CASE("step compares each way of one update with the same update alone") {
  for (const std::size_t micro_steps : {1, 2}) {
    bench::training_options chosen = small();
    chosen.micro_steps = micro_steps;
    const bench::training_outcome seen = bench::measure_step(chosen);
    CHECK(names(seen.rows).front() == "step");
    for (std::size_t r = 0; r < seen.rows.rows().size(); ++r)
      if (at<std::string>(seen.rows, r, 0) == "alone") CHECK(at<double>(seen.rows, r, 4) == 1);
  }
}
