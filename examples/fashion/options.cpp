// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

#include "examples/fashion/options.hpp"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <limits>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "examples/arguments.hpp"
#include "examples/fashion/strategies.hpp"

namespace fashion {
namespace {

using namespace ::arguments;

CLI::Validator rate() {
  constexpr double most = 1000;  // far beyond sense, far below the end of float
  const auto check = [](const std::string& text) -> std::string {
    double value{};
    const char* end = text.data() + text.size();
    const auto [stop, problem] = std::from_chars(text.data(), end, value);
    if (problem == std::errc{} && stop == end && value > 0 && value <= most) return {};
    return "'" + text + "' is not a number above 0, up to 1000";
  };
  return CLI::Validator(check, "");
}

/// Whether `file` would lie in `folder`. Neither need exist.
bool lies_in(const std::string& file, const std::string& folder) {
  std::error_code ignored;
  const auto whole = [&](const std::filesystem::path& path) { return std::filesystem::weakly_canonical(path, ignored); };
  return whole(file).parent_path() == whole(std::filesystem::path{folder} / "file").parent_path();
}

}  // namespace

command_line parse_command_line(int argc, const char* const* argv) {
  command_line asked;
  options& chosen = asked.chosen;
  std::string optimizer = "sgd";
  constexpr int many = 1'000'000;

  CLI::App app{"Trains a multi-layer perceptron on Fashion-MNIST with several replicas, kept in step by gradsync.", "train_fashion"};
  app.set_version_flag("--version", "train_fashion, gradsync 0.1.0", "Print the version and leave");
  app.get_help_ptr()->description("Print this text and leave");
  app.option_defaults()->always_capture_default()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  const auto option = [&](const char* name, auto& value, const std::string& what, const char* type, CLI::Validator check) {
    return app.add_option(name, value, what)->type_name(type)->check(std::move(check));
  };
  option("--data", chosen.data, "Folder of the gzipped IDX files; MNIST works too", "DIR", not_empty());
  option("--ranks", chosen.ranks, "Replicas, each on a thread of its own, up to 64; under mpirun each process is one", "N",
         whole_number(1, 64));
  option("--epochs", chosen.epochs, "Passes over the training set", "N", whole_number(1, many));
  option("--batch", chosen.batch, "Examples of an update, over all ranks", "N", whole_number(1, many));
  option("--shards", chosen.shards, "Micro-batches of an update, over all ranks", "N", whole_number(1, 4096));
  const std::vector<std::string> strategies = strategy_names();
  option("--strategy", chosen.strategy, "How gradients are summed: " + in_words(strategies), "NAME", one_of(strategies));
  option("--bucket-bytes", chosen.bucket_bytes, "Gradients that travel together", "BYTES",
         whole_number(std::size_t{0}, std::size_t{1} << 40));
  option("--optimizer", optimizer, "sgd (momentum 0.9) or adamw", "NAME", one_of({"sgd", "adamw"}));
  const CLI::Option* learning_rate =
      option("--learning-rate", chosen.learning_rate,
             "Of the first epoch; falls from there (0.05 for a batch of 256, in proportion for others; with adamw 0.001)", "X", rate())
          ->default_str("");
  option("--seed", chosen.seed, "For the first weights and the order of the examples", "N",
         whole_number(std::uint64_t{0}, std::numeric_limits<std::uint64_t>::max()));
  option("--metrics", chosen.metrics, "Write a JSON line an epoch, and a last one", "FILE", not_empty());
  option("--trace", chosen.trace, "Write a Chrome trace, which ui.perfetto.dev opens", "FILE", not_empty());

  if (!parse(app, argc, argv, asked)) return asked;
  chosen.optimizer = optimizer == "adamw" ? optimizer_kind::adamw : optimizer_kind::sgd;
  if (learning_rate->count() == 0) {
    // A batch of k times the examples makes k times fewer, better steps (Goyal et al. 2017); 0.1 is as far as this model follows.
    const double in_proportion = 0.05 * static_cast<double>(chosen.batch) / 256;
    chosen.learning_rate = chosen.optimizer == optimizer_kind::adamw ? 0.001 : std::min(in_proportion, 0.1);
  }
  for (std::string* path : {&chosen.data, &chosen.metrics, &chosen.trace}) *path = from_where_the_user_stands(*path);
  if (!chosen.metrics.empty() && chosen.metrics == chosen.trace) {
    asked.text = "train_fashion: --metrics and --trace: both would write to " + chosen.metrics;
    asked.exit_code = 2;
  }
  for (const auto& [name, path] : {std::pair{"--metrics", &chosen.metrics}, std::pair{"--trace", &chosen.trace}}) {
    if (path->empty() || !lies_in(*path, chosen.data)) continue;
    asked.text = std::string{"train_fashion: "} + name + ": " + *path + " is in the folder of the data, which is only read; name another";
    asked.exit_code = 2;
  }
  return asked;
}

}  // namespace fashion
