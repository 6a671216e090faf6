// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

#include "examples/bench/options.hpp"

#include "examples/arguments.hpp"
#include "examples/fashion/strategies.hpp"

namespace bench {
namespace {

// 4, 4K, 4M, 4G.
CLI::Validator bytes() {
  const auto check = [](std::string& text) -> std::string {
    const std::string units = "KMG";
    std::size_t value{};
    const char* end = text.data() + text.size();
    auto [stop, problem] = std::from_chars(text.data(), end, value);
    int shift = 0;
    if (stop != end && units.find(*stop) != std::string::npos) shift = 10 * (static_cast<int>(units.find(*stop++)) + 1);
    if (problem != std::errc{} || stop != end || value == 0 || value > (std::size_t{1} << (36 - shift)) || (value << shift) % 4 != 0)
      return "'" + text + "' is not a number of bytes, of floats, up to 64G: 256, 4K, 1M";
    text = std::to_string(value << shift);
    return {};
  };
  return CLI::Validator(check, "");
}

}  // namespace

command_line parse_command_line(const char* program, int argc, const char* const* argv) {
  using namespace ::arguments;
  command_line asked;
  options& chosen = asked.chosen;
  std::string op = "sum", mode = "hot";

  CLI::App app{"Times all-reduces in place, and says how near they come to what memory allows.", program};
  app.set_version_flag("--version", std::string(program) + ", gradsync 0.1.0", "Print the version and leave");
  app.get_help_ptr()->description("Print this text and leave");
  app.option_defaults()->always_capture_default()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  const std::vector<std::string> known = ::fashion::strategy_names();
  app.add_option("-n,--ranks", chosen.ranks, "Ranks, each on a thread of its own; under mpirun or torchrun each process is one")
      ->type_name("N")
      ->check(whole_number(1, 64));
  app.add_option("-s,--strategy", chosen.strategies, "How they sum, one or more: " + in_words(known))
      ->type_name("NAME")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->delimiter(',')
      ->check(one_of(known));
  app.add_option("-b,--least", chosen.least_bytes, "The smallest buffer")->type_name("BYTES")->transform(bytes());
  app.add_option("-e,--most", chosen.most_bytes, "The largest buffer")->type_name("BYTES")->transform(bytes());
  app.add_option("-f,--factor", chosen.factor, "From one buffer to the next")
      ->type_name("N")
      ->check(whole_number(std::size_t{2}, std::size_t{1} << 20));
  app.add_option("--samples", chosen.samples, "Of each strategy, in turn; the median is printed")
      ->type_name("N")
      ->check(whole_number(1, 100'000));
  app.add_option("-o,--op", op, "sum, or avg, which divides by the number of ranks")->type_name("NAME")->check(one_of({"sum", "avg"}));
  app.add_option("--mode", mode, "hot (back to back), produced (each rank writes before, and reads after), or both")
      ->type_name("NAME")
      ->check(one_of({"hot", "produced", "both"}));
  app.add_option("--json", chosen.json, "Write the table there, for programs")->type_name("FILE")->check(not_empty());
  app.add_option("--plot", chosen.plot, "Draw it there, as SVG; needs gnuplot")->type_name("FILE")->check(not_empty());

  if (!parse(app, argc, argv, asked)) return asked;
  if (chosen.least_bytes > chosen.most_bytes) {
    asked.text = std::string(program) + ": --least: the smallest buffer is larger than the largest";
    asked.exit_code = 2;
  }
  chosen.mean = op == "avg";
  chosen.hot = mode != "produced";
  chosen.produced = mode != "hot";
  for (std::string* path : {&chosen.json, &chosen.plot}) *path = from_where_the_user_stands(*path);
  return asked;
}

}  // namespace bench
