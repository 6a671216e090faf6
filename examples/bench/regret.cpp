// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

// How much slower than the best strategy is the one that `automatic` takes?
//
//     bazel run -c opt //examples/bench:regret -- --ranks 4 --most 16M
//
// How it measures: regret.hpp; what was measured: RESULTS.md.
#include "examples/bench/regret.hpp"

#include <exception>
#include <iostream>

int main(int argc, char** argv) {
  const bench::command_line asked = bench::parse_command_line("regret", argc, argv);
  if (!asked.text.empty()) {
    (asked.exit_code == 0 ? std::cout : std::cerr) << asked.text << std::endl;
    return asked.exit_code;
  }
  try {
    const auto found = bench::regret::measure(asked.chosen);
    const bench::table shown = bench::regret::table_of(found, asked.chosen.ranks);
    shown.print(std::cout);
    for (const bool pass : {true, false})
      std::cout << "# choosing took " << bench::digits(1e3 * bench::median(found.by[pass].seconds)) << " ms " << (pass ? "with" : "without")
                << " the transport's own pass\n";
    if (!asked.chosen.json.empty()) bench::write_json(asked.chosen.json, bench::about_this_run(argc, argv), shown);
    return std::cout.flush() ? 0 : 1;
  } catch (const std::exception& problem) {
    std::cerr << "regret: " << problem.what() << '\n';
    return 1;
  }
}
