// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// Each header gets a generated source that includes it first, and then announces it here.
#pragma once

#include <set>
#include <string>

namespace alone {

/// Headers that were compiled alone, as they are written in an include.
inline std::set<std::string>& compiled() {
  static std::set<std::string> names;
  return names;
}

struct header {
  explicit header(const char* name) { compiled().insert(name); }
};

}  // namespace alone
