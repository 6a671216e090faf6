// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

#include "examples/fashion/options.hpp"

#include <doctest/doctest.h>

#include <cstdlib>
#include <initializer_list>
#include <vector>

namespace {

fashion::command_line parse(std::initializer_list<const char*> arguments) {
  std::vector<const char*> all{"train_fashion"};
  all.insert(all.end(), arguments);
  return fashion::parse_command_line(static_cast<int>(all.size()), all.data());
}

/// Sets BUILD_WORKING_DIRECTORY, or takes it away, until the end of a test.
class working_directory {
 public:
  explicit working_directory(const char* folder) {
    if (const char* before = std::getenv(name); before != nullptr) before_ = before;
    if (folder != nullptr) setenv(name, folder, 1);
    else unsetenv(name);
  }
  ~working_directory() {
    if (before_.empty()) unsetenv(name);
    else setenv(name, before_.c_str(), 1);
  }

 private:
  static constexpr const char* name = "BUILD_WORKING_DIRECTORY";
  std::string before_;
};

void check_refused(std::initializer_list<const char*> arguments, const std::string& text) {
  const auto asked = parse(arguments);
  CHECK(asked.text == "train_fashion: " + text);
  CHECK(asked.exit_code == 2);
}

}  // namespace

TEST_CASE("without options the defaults stand") {
  const auto asked = parse({});
  CHECK(asked.text.empty());
  CHECK(asked.exit_code == 0);
  CHECK(asked.chosen.data == "/usr/share/datasets/fashion-mnist");
  CHECK(asked.chosen.ranks == 4);
  CHECK(asked.chosen.shards == 8);
  CHECK(asked.chosen.batch == 256);
  CHECK(asked.chosen.bucket_bytes == 65536);
  CHECK(asked.chosen.strategy == "native");
  CHECK(asked.chosen.learning_rate == 0.05);
  CHECK(asked.chosen.metrics.empty());
}

TEST_CASE("every option arrives where it belongs") {
  const working_directory none{nullptr};
  const auto asked = parse({"--data",
                            "d",
                            "--ranks",
                            "3",
                            "--epochs",
                            "2",
                            "--batch",
                            "7",
                            "--shards=5",
                            "--strategy",
                            "halving_doubling",
                            "--bucket-bytes",
                            "0",
                            "--optimizer",
                            "adamw",
                            "--learning-rate",
                            "2e-3",
                            "--seed",
                            "18446744073709551615",
                            "--metrics",
                            "m",
                            "--trace",
                            "t"});
  CHECK(asked.text.empty());
  CHECK(asked.chosen.data == "d");
  CHECK(asked.chosen.ranks == 3);
  CHECK(asked.chosen.epochs == 2);
  CHECK(asked.chosen.batch == 7);
  CHECK(asked.chosen.shards == 5);
  CHECK(asked.chosen.strategy == "halving_doubling");
  CHECK(asked.chosen.bucket_bytes == 0);
  CHECK(asked.chosen.optimizer == fashion::optimizer_kind::adamw);
  CHECK(asked.chosen.learning_rate == 0.002);
  CHECK(asked.chosen.seed == 18446744073709551615u);
  CHECK(asked.chosen.metrics == "m");
  CHECK(asked.chosen.trace == "t");
}

TEST_CASE("each bad value is one line that names the option, the value and what would be right") {
  check_refused({"--ranks", "0"}, "--ranks: '0' is not a whole number from 1 to 64");
  check_refused({"--ranks", "abc"}, "--ranks: 'abc' is not a whole number from 1 to 64");
  check_refused({"--ranks", "4x"}, "--ranks: '4x' is not a whole number from 1 to 64");
  check_refused({"--ranks", ""}, "--ranks: '' is not a whole number from 1 to 64");
  check_refused({"--ranks", "1\n2"}, "--ranks: '1 2' is not a whole number from 1 to 64");
  check_refused({"--ranks", "99999999999999999999"}, "--ranks: '99999999999999999999' is not a whole number from 1 to 64");
  check_refused({"--shards", "0"}, "--shards: '0' is not a whole number from 1 to 4096");
  check_refused({"--batch", "0"}, "--batch: '0' is not a whole number from 1 to 1000000");
  check_refused({"--epochs", "-1"}, "--epochs: '-1' is not a whole number from 1 to 1000000");
  check_refused({"--bucket-bytes", "-5"}, "--bucket-bytes: '-5' is not a whole number from 0 to 1099511627776");
  check_refused({"--seed", "0x10"}, "--seed: '0x10' is not a whole number from 0 to 18446744073709551615");
  check_refused({"--strategy", "foo"},
                "--strategy: 'foo' is none of native, automatic, direct, double_tree, halving_doubling, "
                "ring, recursive_doubling, tree");
  check_refused({"--optimizer", "SGD"}, "--optimizer: 'SGD' is none of sgd, adamw");
  for (const char* value : {"0", "-0.1", "nan", "inf", "1e9", "x", "0.1x"})
    check_refused({"--learning-rate", value}, "--learning-rate: '" + std::string{value} + "' is not a number above 0, up to 1000");
  check_refused({"--metrics", ""}, "--metrics: the name is empty");
}

TEST_CASE("unknown options and missing values are one line and exit code 2") {
  for (const auto& asked : {parse({"--rank", "4"}), parse({"four"}), parse({"--ranks"}), parse({"--metrics"})}) {
    CAPTURE(asked.text);
    CHECK(asked.exit_code == 2);
    CHECK(asked.text.starts_with("train_fashion: "));
    CHECK(asked.text.find('\n') == std::string::npos);
  }
}

TEST_CASE("an option given twice takes its last value") { CHECK(parse({"--epochs", "10", "--epochs", "2"}).chosen.epochs == 2); }

TEST_CASE("the default learning rate is the optimizer's, and sgd's grows with the batch") {
  CHECK(parse({"--optimizer", "adamw"}).chosen.learning_rate == 0.001);
  CHECK(parse({"--optimizer", "sgd"}).chosen.learning_rate == 0.05);
  CHECK(parse({"--batch", "64"}).chosen.learning_rate == 0.0125);
  CHECK(parse({"--batch", "60000"}).chosen.learning_rate == 0.1);
  CHECK(parse({"--batch", "64", "--learning-rate", "0.05"}).chosen.learning_rate == 0.05);
  CHECK(parse({"--optimizer", "adamw", "--learning-rate", "0.05"}).chosen.learning_rate == 0.05);
}

TEST_CASE("help names every option, and version the library; neither is a mistake") {
  const auto help = parse({"--help"});
  CHECK(help.exit_code == 0);
  for (const char* option : {"--data", "--ranks", "--epochs", "--batch", "--shards", "--strategy", "--bucket-bytes", "--optimizer",
                             "--learning-rate", "--seed", "--metrics", "--trace", "--version", "--help"})
    CHECK(help.text.find(option) != std::string::npos);
  const auto version = parse({"--version"});
  CHECK(version.exit_code == 0);
  CHECK(version.text == "train_fashion, gradsync 0.1.0");
}

TEST_CASE("relative paths begin where the user stands, absolute ones stay") {
  const working_directory elsewhere{"/home/somebody"};
  const auto asked = parse({"--data", "set", "--metrics", "out/m.jsonl", "--trace", "/tmp/t.json"});
  CHECK(asked.chosen.data == "/home/somebody/set");
  CHECK(asked.chosen.metrics == "/home/somebody/out/m.jsonl");
  CHECK(asked.chosen.trace == "/tmp/t.json");
  CHECK(parse({}).chosen.metrics.empty());
}

TEST_CASE("metrics and trace go to two files") {
  CHECK(parse({"--metrics", "/tmp/a", "--trace", "/tmp/a"}).exit_code == 2);
  CHECK(parse({"--metrics", "/tmp/a", "--trace", "/tmp/a"}).text == "train_fashion: --metrics and --trace: both would write to /tmp/a");
  CHECK(parse({"--metrics", "/tmp/a", "--trace", "/tmp/b"}).text.empty());
}

TEST_CASE("nothing is written into the folder of the data") {
  for (const char* folder : {"/tmp/fashion", "/tmp/fashion/", "/tmp/./fashion"}) {
    const auto asked = parse({"--data", folder, "--metrics", "/tmp/fashion/t10k-labels-idx1-ubyte.gz"});
    CHECK(asked.exit_code == 2);
    CHECK(
        asked.text ==
        "train_fashion: --metrics: /tmp/fashion/t10k-labels-idx1-ubyte.gz is in the folder of the data, which is only read; name another");
  }
  CHECK(parse({"--data", "/tmp/fashion", "--trace", "/tmp/fashion/t.json"}).exit_code == 2);
  CHECK(parse({"--data", "/tmp/fashion", "--trace", "/tmp/fashion-trace.json"}).exit_code == 0);
}
