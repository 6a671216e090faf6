// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

#include "examples/fashion/interrupt.hpp"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

TEST_CASE("the first signal is noted, and a new watch has seen none") {
  {
    const fashion::interrupt_watch watch;
    CHECK(fashion::interrupted() == 0);
    raise(SIGINT);
    CHECK(fashion::interrupted() == SIGINT);
  }
  const fashion::interrupt_watch watch;
  CHECK(fashion::interrupted() == 0);
  raise(SIGTERM);
  CHECK(fashion::interrupted() == SIGTERM);
}

TEST_CASE("the second signal kills at once") {
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    signal(SIGINT, SIG_DFL);
    const fashion::interrupt_watch watch;
    raise(SIGINT);
    raise(SIGINT);
    _exit(0);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WIFSIGNALED(status));
  CHECK(WTERMSIG(status) == SIGINT);
}

TEST_CASE("what a signal did before the watch, it does after") {
  struct sigaction before {
  }, after{};
  sigaction(SIGINT, nullptr, &before);
  { const fashion::interrupt_watch watch; }
  sigaction(SIGINT, nullptr, &after);
  CHECK((before.sa_handler == after.sa_handler));  // doctest cannot print a function
}
