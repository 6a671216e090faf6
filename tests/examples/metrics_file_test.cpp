// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

#include "examples/fashion/metrics_file.hpp"

#include <doctest/doctest.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/examples/generated_data.hpp"

namespace {

std::string complaint(const std::string& path) {
  try {
    fashion::metrics_file file{path};
    return {};
  } catch (const std::exception& wrong) {
    return wrong.what();
  }
}

}  // namespace

TEST_CASE("an epoch's line has these keys, in this order") {
  const fashion::epoch_summary summary{
      .epoch = 1, .loss = 0.5, .accuracy = 0.75, .samples_per_second = 1000, .communication_ms = 12.5, .exposed_ms = 2.25};
  CHECK(fashion::json_line(summary) ==
        R"({"epoch":1,"loss":0.5,"accuracy":0.75,"samples_per_second":1000.0,"communication_ms":12.5,"exposed_ms":2.25})");
}

TEST_CASE("the last line has these keys, in this order") {
  const fashion::final_summary summary{.ranks = 4, .shards = 8, .strategy = "native", .accuracy = 0.875, .fingerprint = "0000000000c0ffee"};
  CHECK(fashion::json_line(summary) ==
        R"({"final":true,"ranks":4,"shards":8,"strategy":"native","accuracy":0.875,"fingerprint":"0000000000c0ffee"})");
}

TEST_CASE("a loss that is not finite is null, and the line still JSON") {
  const std::string line = fashion::json_line(fashion::epoch_summary{.epoch = 1, .loss = std::numeric_limits<double>::quiet_NaN()});
  CHECK(nlohmann::json::parse(line).at("loss").is_null());
}

TEST_CASE("each line is in the file as soon as it is written") {
  const generated::folder place;
  fashion::metrics_file file{place / "metrics"};
  file.write("one");
  CHECK(generated::read_file(place / "metrics") == generated::bytes{'o', 'n', 'e', '\n'});
  file.write("two");
  CHECK(generated::read_file(place / "metrics").size() == 8);
}

TEST_CASE("a file that cannot be opened is told at once, with its option, name and reason") {
  CHECK(complaint("/nowhere/x") == "--metrics: /nowhere/x cannot be written: No such file or directory");
  CHECK(complaint("/tmp") == "--metrics: /tmp cannot be written: Is a directory");
}

TEST_CASE("a full disk is an error, not a shorter file") {
  fashion::metrics_file file{"/dev/full"};
  CHECK_THROWS_WITH(file.write("one"), "--metrics: /dev/full could not be written to its end");
}

TEST_CASE("without a name nothing is written, and nothing is wrong") {
  fashion::metrics_file file{""};
  CHECK_NOTHROW(file.write("one"));
}
