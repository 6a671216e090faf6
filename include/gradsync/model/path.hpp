// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// Where in a model a walk is, as a chain over the call stack. Costs nothing until somebody asks for the text.
///
///     const path layers{&top, "layers"}, third{&layers, {}, 3}, weight{&third, "weight"};
///     weight.text();   // "layers[3].weight"
#pragma once

#include <cstdint>      // indices
#include <string>       // the path as text
#include <string_view>  // names

namespace gradsync::detail {

struct path {
  const path* up = nullptr;
  std::string_view name{};
  std::int64_t index = 0;  ///< where the name is empty

  std::string text() const {
    if (up == nullptr) return {};
    std::string all = up->text();
    if (name.empty()) return all + "[" + std::to_string(index) + "]";
    return (all.empty() ? all : all + ".").append(name);
  }
};

}  // namespace gradsync::detail
