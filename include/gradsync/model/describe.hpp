// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// The parameters of a model as a table to print: name, type, elements, bytes, and their sum.
///
///     std::cout << describe(net);
///
///     parameter     type              count         bytes
///     fc1.weight    float32             512          2048
///     fc1.bias      float32               8            32
///     2 parameters                      520          2080
#pragma once

#include <algorithm>  // the widest name
#include <concepts>   // the twin has the model's type
#include <string>     // the table

#include "gradsync/core/series.hpp"
#include "gradsync/model/for_each_parameter.hpp"

namespace gradsync {
namespace detail {

inline std::string blanks_beside(const std::string& text, std::size_t width) {
  return std::string(width > text.size() ? width - text.size() : 0, ' ');
}

struct table_row {
  std::string name, type, count, bytes;

  std::string line(std::size_t name_width) const {
    const std::string left = name + blanks_beside(name, name_width + 2) + type + blanks_beside(type, 9);
    return left + blanks_beside(count, 14) + count + blanks_beside(bytes, 14) + bytes + "\n";
  }
};

}  // namespace detail

/// The table of a list; a tied parameter shows its other names behind the first one and is counted once.
inline std::string describe(const series<parameter>& parameters) {
  series<std::string> names;
  std::size_t width = 0, count = 0, bytes = 0;
  for (const parameter& p : parameters) {
    std::string name = p.name();
    for (std::size_t i = 1; i < p.aliases.size(); ++i) name += " = " + p.aliases[i].name;
    width = std::max(width, name.size());
    count += p.count;
    bytes += p.bytes();
    names.push_back(std::move(name));
  }
  const std::string total = std::to_string(parameters.size()) + (parameters.size() == 1 ? " parameter" : " parameters");
  width = std::max(width, total.size());

  std::string table = detail::table_row{"parameter", "type", "count", "bytes"}.line(width);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const parameter& p = parameters[i];
    table += detail::table_row{names[i], name_of(p.type), std::to_string(p.count), std::to_string(p.bytes())}.line(width);
  }
  return table + detail::table_row{total, "", std::to_string(count), std::to_string(bytes)}.line(width);
}

/// The table of a model, or of a model whose gradients are a second object. Throws as `parameters_of`.
template <class Model, std::same_as<Model>... Grads>
std::string describe(const Model& model, const Grads&... grads) {
  return describe(parameters_of(const_cast<Model&>(model), const_cast<Grads&>(grads)...));  // nothing is written
}

}  // namespace gradsync
