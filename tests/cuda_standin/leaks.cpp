// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

// Ends a test program where a test case leaves something behind: memory, a stream, an event, a graph. One that has failed anyway may.
#include <doctest/doctest.h>

#include <cstdio>
#include <cstdlib>

#include "standin.hpp"

namespace {

struct leaks : doctest::IReporter {
  explicit leaks(const doctest::ContextOptions&) {}

  void test_case_start(const doctest::TestCaseData& now) override { name_ = now.m_name; }
  void test_case_end(const doctest::CurrentTestCaseStats& how) override {
    if (how.failure_flags != doctest::TestCaseFailureReason::None) return;
    const auto left = standin::alive();
    if (left.empty()) return;
    std::fprintf(stderr, "cuda stand-in: the test case \"%s\" has left behind\n", name_);
    for (const auto& what : left) std::fprintf(stderr, "  %s\n", what.c_str());
    std::fflush(stdout);
    std::_Exit(1);
  }

  void report_query(const doctest::QueryData&) override {}
  void test_run_start() override {}
  void test_run_end(const doctest::TestRunStats&) override {}
  void test_case_reenter(const doctest::TestCaseData&) override {}
  void test_case_exception(const doctest::TestCaseException&) override {}
  void subcase_start(const doctest::SubcaseSignature&) override {}
  void subcase_end() override {}
  void log_assert(const doctest::AssertData&) override {}
  void log_message(const doctest::MessageData&) override {}
  void test_case_skipped(const doctest::TestCaseData&) override {}

 private:
  const char* name_ = "";
};

REGISTER_LISTENER("leaks", 1, leaks);

}  // namespace
