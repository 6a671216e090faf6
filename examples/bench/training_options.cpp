// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

#include <exception>
#include <map>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "examples/arguments.hpp"
#include "examples/bench/training.hpp"
#include "examples/fashion/strategies.hpp"

namespace bench {
namespace {

struct words {
  const char *name, *about;
};

constexpr words about(training_program which) {
  switch (which) {
    case training_program::scaling:
      return {"scaling",
              "Trains one model with 1, 2, 4, ... ranks, at the same batch over all ranks (strong) and for each rank (weak): throughput, "
              "communication by bucket, and the loss after the same number of examples."};
    case training_program::overlap: return {"overlap", "Shows when each bucket of a training step was ready, summed and needed."};
    default: return {"step", "Times training steps with gradsync against the same steps of each rank alone, side by side."};
  }
}

}  // namespace

training_command_line parse_training(training_program which, int argc, const char* const* argv) {
  using namespace ::arguments;
  training_command_line asked;
  training_options& chosen = asked.chosen;
  const auto [name, what] = about(which);
  std::string progress = "automatic";
  constexpr std::size_t many = 1'000'000;

  CLI::App app{what, name};
  app.set_version_flag("--version", std::string(name) + ", gradsync 0.1.0", "Print the version and leave");
  app.get_help_ptr()->description("Print this text and leave");
  app.option_defaults()->always_capture_default()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  const auto option = [&](const char* names, auto& value, const std::string& text, const char* type, CLI::Validator check) {
    return app.add_option(names, value, text)->type_name(type)->check(std::move(check));
  };
  const auto count = [&](const char* names, std::size_t& value, const std::string& text, std::size_t most) {
    option(names, value, text, "N", whole_number(std::size_t{1}, most));
  };
  option("-n,--ranks", chosen.ranks, which == training_program::scaling ? "The most ranks, each a thread" : "Ranks, each a thread", "N",
         whole_number(1, 64));
  count("--batch", chosen.batch,
        which == training_program::scaling ? "Examples of an update: over all ranks (strong), of each (weak)"
                                           : "Examples of a micro-step, of each rank",
        many);
  option("--hidden", chosen.hidden, "Outputs of the layers but the last", "N", whole_number(std::size_t{1}, std::size_t{1} << 16))
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->delimiter(',');
  if (which == training_program::scaling) count("--examples", chosen.examples, "Examples that each training takes", 100 * many);
  else count("--updates", chosen.updates, which == training_program::step ? "Steps of a sample" : "Steps to look at", many);
  if (which == training_program::step) count("--micro-steps", chosen.micro_steps, "Micro-steps of an update", 1024);
  option("--repeats", chosen.repeats, "Of everything, in turn", "N", whole_number(1, 10'000));
  const std::vector<std::string> known = ::fashion::strategy_names();
  option("-s,--strategy", chosen.strategy, "How gradients are summed: " + in_words(known), "NAME", one_of(known));
  option("--bucket-bytes", chosen.bucket_bytes, "Gradients that travel together", "BYTES",
         whole_number(std::size_t{0}, std::size_t{1} << 40));
  option("--progress", progress, "Who drives communication: automatic, thread (one a rank), at-marks", "NAME",
         one_of({"automatic", "thread", "at-marks"}));
  option("--data", chosen.data, "Folder of gzipped IDX files, such as Fashion-MNIST's; without it images are made", "DIR", not_empty());
  count("--side", chosen.side, "Pixels of a row of the images that are made", 1024);
  option("--seed", chosen.seed, "For the first weights", "N", whole_number(std::uint64_t{0}, ~std::uint64_t{0}));
  option("--json", chosen.json, "Write the table there, for programs", "FILE", not_empty());
  option("--plot", chosen.plot, "Draw it there, as SVG; needs gnuplot", "FILE", not_empty());

  if (!parse(app, argc, argv, asked)) return asked;
  chosen.progress = progress == "thread"     ? gradsync::progress::thread
                    : progress == "at-marks" ? gradsync::progress::at_marks
                                             : gradsync::progress::automatic;
  for (std::string* path : {&chosen.data, &chosen.json, &chosen.plot}) *path = from_where_the_user_stands(*path);
  if (which == training_program::scaling && chosen.batch * static_cast<std::size_t>(chosen.ranks) > chosen.examples) {
    asked.text = "scaling: --examples: " + std::to_string(chosen.examples) + " are fewer than one update of " +
                 std::to_string(chosen.ranks) + " ranks takes";
    asked.exit_code = 2;
  }
  return asked;
}

int run_training(training_program which, int argc, const char* const* argv, std::ostream& out, std::ostream& errors) {
  const training_command_line asked = parse_training(which, argc, argv);
  if (!asked.text.empty()) {
    std::ostream& to = asked.exit_code == 0 ? out : errors;
    to << asked.text << std::endl;
    return to ? asked.exit_code : 1;
  }
  const training_options& chosen = asked.chosen;
  try {
    const training_outcome seen = which == training_program::scaling   ? measure_scaling(chosen)
                                  : which == training_program::overlap ? measure_overlap(chosen)
                                                                       : measure_step(chosen);
    seen.rows.print(out);
    if (!chosen.json.empty()) write_json(chosen.json, about_this_run(argc, argv), seen.rows);
    if (!chosen.plot.empty()) write_svg(chosen.plot, seen.drawn);
    return out.flush() ? 0 : 1;
  } catch (const std::exception& problem) {
    errors << about(which).name << ": " << problem.what() << '\n';
    return 1;
  }
}

}  // namespace bench
