// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

#include <doctest/doctest.h>

#include "tests/house/text.hpp"

namespace {

using lines = std::vector<std::string>;

struct block {
  std::string language;
  lines text;
};

std::vector<block> blocks_of(const lines& markdown) {
  std::vector<block> blocks;
  bool inside = false;
  for (const auto& line : markdown) {
    if (!line.starts_with("```")) {
      if (inside) blocks.back().text.push_back(line);
    } else if ((inside = !inside)) {
      blocks.push_back({line.substr(3), {}});
    }
  }
  return blocks;
}

// The program proper: an example opens with its licence and question and ends with the name of the next one, all of it comment lines.
lines without_comments_around(lines text) {
  const auto is_program = [](const std::string& line) { return !line.empty() && !line.starts_with("//"); };
  text.erase(text.begin(), std::find_if(text.begin(), text.end(), is_program));
  text.erase(std::find_if(text.rbegin(), text.rend(), is_program).base(), text.end());
  return text;
}

std::string joined(const lines& text) {
  std::string all;
  for (const auto& line : text) all += line + '\n';
  return all;
}

}  // namespace

TEST_CASE("the README opens with the first example, whole, and with what it prints") {
  const lines example = house::lines_of(house::text_of("examples/01_first_sync.cpp"));
  const lines stored = house::lines_of(house::text_of("examples/01_first_sync.expected"));
  REQUIRE_FALSE(example.empty());
  REQUIRE_FALSE(stored.empty());

  const auto blocks = blocks_of(house::lines_of(house::text_of("README.md")));
  const auto program = std::find_if(blocks.begin(), blocks.end(), [](const block& b) { return b.language == "cpp"; });
  REQUIRE_MESSAGE(program != blocks.end(), "README.md has no ```cpp block");
  CHECK(joined(program->text) == joined(without_comments_around(example)));
  REQUIRE_MESSAGE(program + 1 != blocks.end(), "README.md does not show what its program prints");
  CHECK(joined((program + 1)->text) == joined(stored));
}

TEST_CASE("blocks and comments around a program are told apart") {
  const auto blocks = blocks_of(house::lines_of("text\n```cpp\nint a;\n```\n\n```\n1\n2\n```\n"));
  REQUIRE(blocks.size() == 2);
  CHECK(blocks[0].language == "cpp");
  CHECK(joined(blocks[0].text) == "int a;\n");
  CHECK(joined(blocks[1].text) == "1\n2\n");
  const auto example = house::lines_of("// head\n\nint a;\n// inside\nint b;\n\n// next\n");
  CHECK(joined(without_comments_around(example)) == "int a;\n// inside\nint b;\n");
}
