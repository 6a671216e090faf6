// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// Text files as the house rules see them: read whole, cut into lines, compared with what is stored.
#pragma once

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

namespace house {

/// The whole file; empty if it cannot be read.
inline std::string text_of(const std::filesystem::path& path) {
  std::ifstream in{path, std::ios::binary};
  return {std::istreambuf_iterator<char>{in}, {}};
}

/// Without the ends of lines. A last line needs none.
inline std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    lines.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

/// Characters a reader sees, where the text is UTF-8 without combining marks.
inline std::size_t columns_of(std::string_view line) {
  const auto begins_character = [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; };
  return static_cast<std::size_t>(std::count_if(line.begin(), line.end(), begins_character));
}

/// Whether a printed line is the stored one, in which each `…` stands for any text up to what follows it.
inline bool fits(std::string_view stored, std::string_view printed) {
  constexpr std::string_view any = "…";
  std::size_t mark = stored.find(any);
  if (mark == std::string_view::npos) return stored == printed;
  if (!printed.starts_with(stored.substr(0, mark))) return false;
  printed.remove_prefix(mark);
  stored.remove_prefix(mark + any.size());
  while ((mark = stored.find(any)) != std::string_view::npos) {
    const std::size_t at = printed.find(stored.substr(0, mark));
    if (at == std::string_view::npos) return false;
    printed.remove_prefix(at + mark);
    stored.remove_prefix(mark + any.size());
  }
  return printed.ends_with(stored);
}

/// What a program printed against what is stored: empty if they agree, else the first difference.
inline std::string difference(std::string_view stored, std::string_view printed) {
  const auto expected = lines_of(stored), got = lines_of(printed);
  for (std::size_t i = 0; i < std::max(expected.size(), got.size()); ++i) {
    if (i < expected.size() && i < got.size() && fits(expected[i], got[i])) continue;
    return "line " + std::to_string(i + 1) + "\n  stored:  " + (i < expected.size() ? expected[i] : "(the end)") +
           "\n  printed: " + (i < got.size() ? got[i] : "(the end)");
  }
  return {};
}

}  // namespace house
