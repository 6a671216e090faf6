// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// What a rank can know of an exception in another process: what it was told.
#pragma once

#include <stdexcept>
#include <string>

#include "gradsync/core/error.hpp"
#include "tests/laws/transport_laws.hpp"

namespace gradsync::laws {

/// Calls `f`. Where that throws what a rank is told of an exception that the laws have thrown on another, throws the like of that one.
template <class F>
void as_thrown(F&& f) {
  try {
    f();
  } catch (const transport_error& e) {
    const std::string told = e.what();
    const auto says = [&](const char* part) { return told.find(part) != told.npos; };
    if (says("failed: the batch is not a number")) throw std::domain_error("the batch is not a number");
    if (says("of a type that gradsync does not know")) throw no_exception_of_ours{};
    throw;
  }
}

}  // namespace gradsync::laws
