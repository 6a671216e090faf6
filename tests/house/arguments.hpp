// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// What stands on a test's command line: house rules that serve many files learn from it which one to judge.
#pragma once

#include <string>
#include <vector>

/// Without the program's own name. Defined beside main.
std::vector<std::string>& arguments();
