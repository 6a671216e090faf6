// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

// The one main of all tests. Obeys --test_filter, splits the test cases over Bazel's shards, and keeps the command line for house rules.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "tests/house/arguments.hpp"

std::vector<std::string>& arguments() {
  static std::vector<std::string> kept;
  return kept;
}

namespace {

// Skipping the test cases of other shards, rather than giving doctest a range, keeps them out of its count of passed ones.
void skip_other_shards(std::size_t shard, std::size_t shards) {
  std::size_t number = 0;
  for (const doctest::detail::TestCase& test : doctest::detail::getRegisteredTests())
    if (number++ % shards != shard) const_cast<doctest::detail::TestCase&>(test).m_skip = true;
}

}  // namespace

// Of a library that some tests link; null in the others.
[[gnu::weak]] const char* reason_to_skip();

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) arguments().push_back(argv[i]);
  if (doctest::detail::getRegisteredTests().empty()) {
    std::fputs("this program holds no test case\n", stderr);
    return 1;
  }
  if (const char* reason = reason_to_skip ? reason_to_skip() : nullptr) {
    std::printf("skipped: %s\n[doctest] test cases: 0 | 0 passed | 0 failed\n", reason);
    return 0;
  }
  doctest::Context context;
  if (const char* filter = std::getenv("TESTBRIDGE_TEST_ONLY")) context.addFilter("test-case", filter);
  const char* shards = std::getenv("TEST_TOTAL_SHARDS");
  const char* shard = std::getenv("TEST_SHARD_INDEX");
  if (shards && shard) {
    if (const char* status = std::getenv("TEST_SHARD_STATUS_FILE")) std::ofstream{status};
    skip_other_shards(std::strtoul(shard, nullptr, 10), std::strtoul(shards, nullptr, 10));
  }
  context.applyCommandLine(argc, argv);
  return context.run();
}
