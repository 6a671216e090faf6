// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// What a program says on the error output, destructors for example, which can't throw it.
#pragma once

#include <doctest/doctest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>

namespace gradsync::tests {

/// All of this process's, while f runs.
template <class F>
std::string said_on_stderr(F&& f) {
  struct redirected {
    redirected() {
      REQUIRE(file >= 0);
      std::fflush(stderr);
      dup2(file, 2);
    }
    ~redirected() {
      std::fflush(stderr);
      dup2(before, 2);
      close(before);
      close(file);
      unlink(name);
    }
    char name[24] = "/tmp/gradsync_XXXXXX";
    const int file = mkstemp(name), before = dup(2);
  };
  const redirected meanwhile;
  std::forward<F>(f)();
  std::fflush(stderr);
  std::stringstream said;
  said << std::ifstream(meanwhile.name).rdbuf();
  return said.str();
}

}  // namespace gradsync::tests
