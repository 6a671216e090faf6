// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// What the command lines of the example programs have in common: checks that speak for themselves, one line for a mistake, and paths that
/// mean what the user means. Include it where a command line is parsed, and nowhere else: CLI11 is slow to compile.
#pragma once

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace arguments {

// Each check speaks for itself: CLI11 puts the option's name in front, and conversion cannot fail afterwards.

template <class Integer>
CLI::Validator whole_number(Integer least, Integer most) {
  const std::string range = std::to_string(least) + " to " + std::to_string(most);
  const auto check = [=](const std::string& text) -> std::string {
    Integer value{};
    const char* end = text.data() + text.size();
    const auto [stop, problem] = std::from_chars(text.data(), end, value);
    if (problem == std::errc{} && stop == end && value >= least && value <= most) return {};
    return "'" + text + "' is not a whole number from " + range;
  };
  return CLI::Validator(check, "");
}

inline std::string in_words(const std::vector<std::string>& words) {
  std::string list;
  for (const auto& word : words) list += (list.empty() ? "" : ", ") + word;
  return list;
}

inline CLI::Validator one_of(std::vector<std::string> words) {
  const auto check = [list = in_words(words), words = std::move(words)](const std::string& text) -> std::string {
    if (std::find(words.begin(), words.end(), text) != words.end()) return {};
    return "'" + text + "' is none of " + list;
  };
  return CLI::Validator(check, "");
}

inline CLI::Validator not_empty() {
  return CLI::Validator([](const std::string& text) -> std::string { return text.empty() ? "the name is empty" : ""; }, "");
}

/// CLI11 breaks some messages over lines; a mistake is told in one.
inline std::string one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  while (!text.empty() && text.back() == ' ') text.pop_back();
  return text;
}

/// `bazel run` starts a program elsewhere, and says in the environment variable BUILD_WORKING_DIRECTORY where it was called.
inline std::string from_where_the_user_stands(const std::string& path) {
  const char* folder = std::getenv("BUILD_WORKING_DIRECTORY");
  if (folder == nullptr || path.empty()) return path;
  return (std::filesystem::path{folder} / path).string();  // an absolute path stays as it is
}

/// Reads a command line into what the app's options stand for. False where there is nothing to run: `asked` has the text to print, and the
/// exit status 0 (help, version) or 2 (a mistake, in one line that begins with the program's name).
template <class Asked>
bool parse(CLI::App& app, int argc, const char* const* argv, Asked& asked) {
  try {
    app.parse(argc, argv);
    return true;
  } catch (const CLI::CallForHelp&) {
    asked.text = app.help();
    while (asked.text.ends_with('\n')) asked.text.pop_back();
  } catch (const CLI::CallForVersion& version) {
    asked.text = version.what();
  } catch (const CLI::ParseError& mistake) {
    asked.text = app.get_name() + ": " + one_line(mistake.what());
    asked.exit_code = 2;
  }
  return false;
}

}  // namespace arguments
