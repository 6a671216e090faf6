// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

// Lists of parameters as the room model makes them, from numbers alone.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "gradsync/model/parameter.hpp"

namespace test {

struct shape {
  std::size_t count;
  gradsync::dtype type = gradsync::dtype::float32;
};

/// Named p0, p1, …; they have no memory.
inline gradsync::series<gradsync::parameter> parameters_of_shapes(const std::vector<shape>& shapes) {
  gradsync::series<gradsync::parameter> all;
  for (const shape& s : shapes) {
    gradsync::parameter p;
    p.type = s.type;
    p.count = s.count;
    p.aliases.push_back({"p" + std::to_string(all.size()), nullptr, nullptr, nullptr});
    all.push_back(std::move(p));
  }
  return all;
}

}  // namespace test
