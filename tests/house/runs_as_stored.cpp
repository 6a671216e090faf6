// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

// Arguments: a program, and the file that holds what it must print to its standard output; or several, of which it must be one, where that
// depends on the machine.
#include <stdio.h>  // popen is POSIX, not C++

#include <doctest/doctest.h>

#include "tests/house/arguments.hpp"
#include "tests/house/text.hpp"

TEST_CASE("the program prints what is stored beside it, and succeeds") {
  REQUIRE(arguments().size() >= 2);
  const std::string program = arguments()[0];
  const std::vector<std::string> stored(arguments().begin() + 1, arguments().end());
  for (const std::string& file : stored)
    REQUIRE_MESSAGE(std::filesystem::exists(file), file << " is missing: store there what the program prints, with … for what varies");

  FILE* out = popen(program.c_str(), "r");
  REQUIRE(out != nullptr);
  std::string printed;
  char piece[4096];
  while (const std::size_t n = fread(piece, 1, sizeof piece, out)) printed.append(piece, n);
  const int status = pclose(out);

  INFO("all that was printed:\n" << printed);
  CHECK_MESSAGE(status == 0, program << " ended with status " << status);
  std::string differs;
  for (const std::string& file : stored) {
    const std::string here = house::difference(house::text_of(file), printed);
    if (here.empty()) return;
    differs += file + " " + here + "\n";
  }
  FAIL_CHECK(differs);
}
