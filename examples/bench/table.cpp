// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

#include "examples/bench/table.hpp"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <nlohmann/json.hpp>
#include <ostream>
#include <stdexcept>

#include "examples/bench/probe.hpp"

namespace bench {
namespace {

struct to_text {
  std::string operator()(const std::string& s) const { return s; }
  std::string operator()(std::int64_t n) const { return std::to_string(n); }
  std::string operator()(double x) const { return digits(x); }
};

bool is_text(const std::vector<std::vector<cell>>& rows, std::size_t c) {
  return std::any_of(rows.begin(), rows.end(), [&](const auto& row) { return std::holds_alternative<std::string>(row[c]); });
}

std::string key_of(const column& c) {
  std::string key = c.name;
  if (!c.unit.empty()) key += "_" + c.unit;
  for (std::size_t at; (at = key.find('%')) != std::string::npos;) key.replace(at, 1, "percent");
  for (char& letter : key)
    if (std::isalnum(static_cast<unsigned char>(letter)) == 0 && letter != '#') letter = '_';
  return key;
}

std::string quoted(const std::string& text) {
  std::string safe = "'";
  for (char letter : text) safe += letter == '\'' ? std::string("''") : std::string(1, letter == '\n' ? ' ' : letter);
  return safe + "'";
}

}  // namespace

void table::add(std::vector<cell> row) {
  if (row.size() != columns_.size()) throw std::invalid_argument("a row needs a cell for each column");
  rows_.push_back(std::move(row));
}

std::string digits(double value) {
  const double size = std::fabs(value);
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", size >= 100 || size == 0 ? 0 : size >= 10 ? 1 : size >= 1 ? 2 : 3, value);
  return text;
}

void table::print(std::ostream& to) const {
  std::vector<std::string> lines(rows_.size() + 2);
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    std::vector<std::string> texts{columns_[c].name, columns_[c].unit.empty() ? "" : "(" + columns_[c].unit + ")"};
    for (const auto& row : rows_) texts.push_back(std::visit(to_text{}, row[c]));
    std::size_t width = 0;
    for (const std::string& text : texts) width = std::max(width, text.size());
    for (std::size_t r = 0; r < texts.size(); ++r) {
      const std::string space(width - texts[r].size(), ' ');
      lines[r] += (c == 0 ? "" : "  ") + (is_text(rows_, c) ? texts[r] + space : space + texts[r]);
    }
  }
  for (std::size_t r = 0; r < lines.size(); ++r)
    to << (r < 2 ? "# " : "  ") << lines[r].substr(0, lines[r].find_last_not_of(' ') + 1) << '\n';
}

void write_json(const std::string& file, const std::vector<std::pair<std::string, cell>>& about, const table& rows) {
  nlohmann::ordered_json whole;
  const auto put = [](nlohmann::ordered_json& object, const std::string& key, const cell& value) {
    std::visit([&](const auto& v) { object[key] = v; }, value);
  };
  for (const auto& [key, value] : about) put(whole, key, value);
  whole["rows"] = nlohmann::ordered_json::array();
  for (const auto& row : rows.rows()) {
    nlohmann::ordered_json object;
    for (std::size_t c = 0; c < row.size(); ++c) put(object, key_of(rows.columns()[c]), row[c]);
    whole["rows"].push_back(std::move(object));
  }
  std::ofstream to(file);
  if (!(to << whole.dump(1) << std::endl)) throw std::runtime_error(file + " could not be written");
}

void write_svg(const std::string& file, const chart& drawn) {
  if (!std::ofstream(file)) throw std::runtime_error(file + " could not be written");
  if (std::system("command -v gnuplot > /dev/null 2>&1") != 0)
    throw std::runtime_error("there is no gnuplot to draw " + file + " with; install it (Debian: gnuplot-nox), or leave out the plot");
  std::FILE* const to = popen("gnuplot", "w");
  if (to == nullptr) throw std::runtime_error("gnuplot could not be started");
  std::string text = "set terminal svg size 900,600 dynamic background 'white'\nset output " + quoted(file) + "\nset title " +
                     quoted(drawn.title) + " noenhanced\nset xlabel " + quoted(drawn.x) + " noenhanced\nset ylabel " + quoted(drawn.y) +
                     " noenhanced\nset key outside bottom center horizontal noenhanced\nset grid\n";
  if (drawn.log_x) text += "set logscale x 2\nset format x '%.0b%B'\n";
  if (drawn.log_y) text += "set logscale y\n";
  std::string plots;
  for (std::size_t i = 0; i < drawn.lines.size(); ++i) {
    const std::string name = "$line" + std::to_string(i);
    text += name + " << EOD\n";
    char point[80];
    for (const auto& [x, y] : drawn.lines[i].points) {
      std::snprintf(point, sizeof point, "%.9g %.9g\n", x, y);
      text += point;
    }
    text += "EOD\n";
    plots += (i == 0 ? "plot " : ", ") + name + " with linespoints title " + quoted(drawn.lines[i].name);
  }
  text += plots + "\n";
  std::fputs(text.c_str(), to);
  if (pclose(to) != 0) throw std::runtime_error("gnuplot could not draw " + file);
}

std::vector<std::pair<std::string, cell>> about_this_run(int argc, const char* const* argv) {
  const std::time_t now = std::time(nullptr);
  char date[32];
  std::strftime(date, sizeof date, "%Y-%m-%d %H:%M UTC", std::gmtime(&now));
  std::string processor = "unknown", text;
  for (std::ifstream info("/proc/cpuinfo"); std::getline(info, text);)
    if (text.starts_with("model name")) {
      processor = text.substr(text.find(':') + 2);
      break;
    }
  std::string command;
  for (int i = 0; i < argc; ++i) command += (i == 0 ? "" : " ") + std::string(argv[i]);
  return {{"date", std::string(date)},
          {"processor", processor},
          {"cpus", static_cast<std::int64_t>(cpus_at_start().size())},
          {"command", command}};
}

}  // namespace bench
