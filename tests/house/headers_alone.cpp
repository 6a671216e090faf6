// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

// Linked with one generated source per header, this fails to compile where a header needs an include it does not have, and fails to link
// where a function that is not inline would stand in two of a user's files.
#include <doctest/doctest.h>

#include <filesystem>

#include "tests/house/alone.hpp"

TEST_CASE("every header compiles alone, twice in one file, and beside all the others") {
  std::set<std::string> there;
  for (const auto& entry : std::filesystem::recursive_directory_iterator("include"))
    if (entry.path().extension() == ".hpp") there.insert(entry.path().lexically_relative("include").generic_string());
  CHECK_FALSE(there.empty());
  for (const auto& name : there) CHECK_MESSAGE(alone::compiled().contains(name), name << " was not compiled alone");
}
