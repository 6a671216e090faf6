// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

// Arguments: a source that must not compile, whose first line is `// expect: <sentence>`, and what the compiler said to it.
#include <doctest/doctest.h>

#include "tests/house/arguments.hpp"
#include "tests/house/text.hpp"

TEST_CASE("the compiler refuses the program with the promised sentence") {
  REQUIRE(arguments().size() >= 2);
  const auto source = house::lines_of(house::text_of(arguments()[0]));
  const auto answer = house::lines_of(house::text_of(arguments()[1]));
  constexpr std::string_view promise = "// expect: ";
  REQUIRE_FALSE(source.empty());
  REQUIRE_MESSAGE(source[0].starts_with(promise), arguments()[0] << " must begin with `" << promise << "<sentence>`");
  const std::string sentence = source[0].substr(promise.size());
  REQUIRE_FALSE(sentence.empty());

  REQUIRE_FALSE(answer.empty());
  std::string said;
  for (std::size_t i = 1; i < answer.size(); ++i) said += answer[i] + '\n';
  CHECK_MESSAGE(answer[0] == "refused", arguments()[0] << " compiled");
  CHECK_MESSAGE(said.find(sentence) != std::string::npos, "the compiler said, without the promised sentence:\n" << said);
}
