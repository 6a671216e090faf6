// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// What a program has measured: columns with names and units, for people, for programs (JSON) and for the eye (SVG, by gnuplot).
///
///     bench::table of{{{"size", "B"}, {"time", "us"}}};
///     of.add({1024, 1.25});
///     of.print(std::cout);
///     bench::write_json("out.json", {{"program", "allreduce"}}, of);
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace bench {

using cell = std::variant<std::string, std::int64_t, double>;

struct column {
  std::string name;
  std::string unit = "";  ///< stands below the name, in brackets; part of the key in JSON: "time_us"
};

class table {
 public:
  explicit table(std::vector<column> columns) : columns_(std::move(columns)) {}

  void add(std::vector<cell> row);  ///< as many cells as columns, else std::invalid_argument
  void print(std::ostream& to) const;

  const std::vector<column>& columns() const { return columns_; }
  const std::vector<std::vector<cell>>& rows() const { return rows_; }

 private:
  std::vector<column> columns_;
  std::vector<std::vector<cell>> rows_;
};

/// Three or four digits that mean something, never an exponent: 0.0123, 1.23, 12.3, 1234567.
std::string digits(double value);

/// An object with what is said about the whole, and under "rows" an object a row. std::runtime_error if the file can't be written.
void write_json(const std::string& file, const std::vector<std::pair<std::string, cell>>& about, const table& rows);

/// One curve.
struct line {
  std::string name;
  std::vector<std::pair<double, double>> points;
};
struct chart {
  std::string title, x, y;  ///< the texts of the axes
  bool log_x = true, log_y = true;
  std::vector<line> lines;
};

/// Draws with gnuplot. std::runtime_error where there is none, or if the file can't be written.
void write_svg(const std::string& file, const chart& drawn);

/// What every program says of its run: date (UTC), processor, usable CPUs, command.
std::vector<std::pair<std::string, cell>> about_this_run(int argc, const char* const* argv);

}  // namespace bench
