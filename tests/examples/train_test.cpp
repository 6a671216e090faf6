// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

#include "examples/fashion/train.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <csignal>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "examples/fashion/idx.hpp"
#include "examples/fashion/interrupt.hpp"
#include "tests/examples/generated_data.hpp"

namespace {

/// 300 examples to learn from: with a batch of 64 the last batch is smaller, and its shards are uneven.
struct small_training {
  generated::folder place;
  fashion::options chosen;
  std::ostringstream out;

  small_training() {
    generated::write_dataset(place.path(), 300, 1100);
    chosen.data = place.path();
    chosen.epochs = 2;
    chosen.batch = 64;
    chosen.bucket_bytes = 8192;  // several buckets
  }

  fashion::training_result run() {
    out.str("");
    fashion::report show{out, fashion::report::output::plain};
    return fashion::train(chosen, show);
  }
  fashion::training_result run(int ranks, const std::string& strategy = "native") {
    chosen.ranks = ranks;
    chosen.strategy = strategy;
    return run();
  }

  bool said(const std::string& text) const { return out.str().find(text) != std::string::npos; }

  std::vector<nlohmann::json> metrics() const {
    std::vector<nlohmann::json> lines;
    std::ifstream file{chosen.metrics};
    for (std::string line; std::getline(file, line);) lines.push_back(nlohmann::json::parse(line));
    return lines;
  }
};

}  // namespace

TEST_CASE("1, 2, 4 and 8 ranks end with the same bits, whatever the bucket size") {
  small_training t;
  const auto one = t.run(1);
  CHECK(one.replicas_agree);
  CHECK(one.fingerprint != 0);
  for (const std::string strategy : {"native", "automatic", "tree", "halving_doubling", "recursive_doubling"}) {
    for (const int ranks : {2, 4, 8}) {
      for (const std::size_t bucket_bytes : {std::size_t{0}, std::size_t{8192}, std::size_t{1} << 20}) {
        if (strategy != "native" && bucket_bytes != (ranks == 4 ? 0u : 8192u)) continue;  // all sizes with one of them
        CAPTURE(strategy);
        CAPTURE(ranks);
        CAPTURE(bucket_bytes);
        t.chosen.bucket_bytes = bucket_bytes;
        const auto result = t.run(ranks, strategy);
        CHECK(result.replicas_agree);
        CHECK(result.fingerprint == one.fingerprint);
        CHECK(result.loss == one.loss);
        CHECK(result.accuracy == one.accuracy);
        CHECK(t.said("bits: the same for any number of ranks that gives each a power of two of the 8 shards, and for any bucket size"));
      }
    }
  }
}

TEST_CASE("adamw keeps replicas in step as well, to another end than sgd") {
  small_training t;
  const auto sgd = t.run(1);
  t.chosen.optimizer = fashion::optimizer_kind::adamw;
  t.chosen.learning_rate = 0.001;
  const auto one = t.run(1), four = t.run(4);
  CHECK(one.fingerprint == four.fingerprint);
  CHECK(one.fingerprint != sgd.fingerprint);
}

TEST_CASE("the seed decides the bits") {
  small_training t;
  const auto first = t.run(2), again = t.run(2);
  CHECK(first.fingerprint == again.fingerprint);
  t.chosen.seed = 2;
  CHECK(t.run(2).fingerprint != first.fingerprint);
}

TEST_CASE("ranks that share unevenly, and ranks without a shard, come to the right mean") {
  small_training t;
  const auto one = t.run(1);
  for (const int ranks : {3, 5, 11}) {  // 8 shards: 3 of the 11 ranks have none
    for (const std::string strategy : {"native", "direct", "ring", "double_tree", "recursive_doubling"}) {
      CAPTURE(ranks);
      CAPTURE(strategy);
      const auto result = t.run(ranks, strategy);
      CHECK(result.replicas_agree);
      CHECK(result.loss == doctest::Approx(one.loss).epsilon(1e-4));
      CHECK(result.accuracy == doctest::Approx(one.accuracy).epsilon(0.01));
      CHECK(t.said("bits: dependent on the number of ranks"));
    }
  }
}

TEST_CASE("a batch smaller than its shards, with fewer examples than ranks in the last one, trains like one rank") {
  small_training t;
  t.chosen.batch = 7;  // 300 = 42 * 7 + 6
  const auto one = t.run(1);
  CHECK(std::isfinite(one.loss));
  CHECK(t.run(4).fingerprint == one.fingerprint);
  CHECK(t.run(8).fingerprint == one.fingerprint);
}

TEST_CASE("the small data set is learnt") {
  small_training t;
  t.chosen.epochs = 10;
  CHECK(t.run(2).accuracy > 0.95);
}

TEST_CASE("the metrics file has a line an epoch, and a last one that agrees with what is said") {
  small_training t;
  t.chosen.metrics = t.place / "metrics.jsonl";
  const auto result = t.run(2);
  const auto lines = t.metrics();
  REQUIRE(lines.size() == 3);
  for (std::size_t i = 0; i < 2; ++i) {
    CHECK(lines[i].at("epoch") == i + 1);
    CHECK(lines[i].at("loss") > 0);
    CHECK(lines[i].at("samples_per_second") > 0);
    CHECK(lines[i].at("communication_ms") >= lines[i].at("exposed_ms"));
  }
  CHECK(lines[1].at("loss") < lines[0].at("loss"));
  CHECK(lines[1].at("accuracy") == result.accuracy);
  CHECK(lines[2].at("final") == true);
  CHECK(lines[2].at("ranks") == 2);
  CHECK(lines[2].at("shards") == 8);
  CHECK(lines[2].at("strategy") == "native");
  const std::string fingerprint = lines[2].at("fingerprint");
  CHECK(std::stoull(fingerprint, nullptr, 16) == result.fingerprint);
  CHECK(t.said("fingerprint " + fingerprint));
}

TEST_CASE("the trace is JSON, with each rank's updates and buckets") {
  small_training t;
  t.chosen.trace = t.place / "trace.json";
  t.run(2);
  std::ifstream file{t.chosen.trace};
  const auto events = nlohmann::json::parse(file);
  std::size_t backward[2] = {}, sums[2] = {};
  for (const auto& event : events) {
    if (event.at("name") == "backward") ++backward[event.at("pid").get<std::size_t>()];
    if (event.at("name") == "all-reduce") ++sums[event.at("pid").get<std::size_t>()];
  }
  for (const std::size_t rank : {std::size_t{0}, std::size_t{1}}) {
    CHECK(backward[rank] == 10);  // 2 epochs of 5 batches
    CHECK(sums[rank] > 10);       // of several buckets each
    CHECK(sums[rank] % 10 == 0);
  }
}

TEST_CASE("files that can't be written are told before the first epoch") {
  small_training t;
  t.chosen.trace = "/nowhere/x";
  CHECK_THROWS_WITH(t.run(2), "--trace: /nowhere/x cannot be written: No such file or directory");
  t.chosen.metrics = "/nowhere/y";
  CHECK_THROWS_WITH(t.run(2), "--metrics: /nowhere/y cannot be written: No such file or directory");
  CHECK(t.out.str().empty());
}

TEST_CASE("what fails on one rank is thrown, and no rank hangs") {
  small_training t;
  t.chosen.metrics = "/dev/full";
  CHECK_THROWS_WITH(t.run(4), "--metrics: /dev/full could not be written to its end");
}

TEST_CASE("a signal ends all ranks at the same batch") {
  small_training t;
  t.chosen.epochs = 1'000'000;
  t.chosen.metrics = t.place / "metrics.jsonl";
  const fashion::interrupt_watch watch;
  std::thread user{[&] {  // presses Ctrl-C when the first epoch is done
    while (generated::read_file(t.chosen.metrics).empty()) std::this_thread::sleep_for(std::chrono::milliseconds{5});
    raise(SIGINT);
  }};
  const auto result = t.run(4);
  user.join();
  CHECK(result.signal == SIGINT);
  CHECK(t.said("all ranks left together"));
  const auto lines = t.metrics();
  REQUIRE(!lines.empty());
  CHECK(!lines.back().contains("final"));
}
