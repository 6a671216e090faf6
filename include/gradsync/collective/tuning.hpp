// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// Tuning tables: choices that were made once, kept in a file, and made alike ever after. Not part of gradsync.hpp.
///
///     gradsync::collective sum{comm, gradsync::automatic{}};
///     if (comm.rank() == 0) std::ofstream("tuning.csv") << tuning_table(sum);      // measured
///     gradsync::collective again{comm, gradsync::tuned{.file = "tuning.csv"}};     // read, on any later day
///
/// The columns are those of the example tuner plugin of NCCL, so a table can be looked at and edited by the same tools:
///
///     # collective_type,min_bytes,max_bytes,algorithm,protocol,channels,nNodes,nRanks,numPipeOps,regBuff
///     allreduce,0,4096,tree,simple,1,-1,4,-1,-1
///     allreduce,4097,18446744073709551615,native,simple,-1,-1,4,-1,-1
///
///   algorithm   native, direct, recursive_doubling, halving_doubling, tree, double_tree or ring
///   protocol    ll, ll128 or simple; there is one way to move bytes here
///   channels    segments of a tree, and of each half of a double_tree; -1: the strategy's own number; -1 for all others
///   nNodes, nRanks, numPipeOps
///               a row is for that many hosts and ranks, and for so many buffers at a time, which is 1 here; -1: for any
///   regBuff     has no say here; it and numPipeOps may be missing
///
/// Of a buffer's rows the first one counts, and native where there is none. Empty lines, lines that begin with a #, and other collectives
/// are passed over.
#pragma once

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <fstream>
#include <iterator>
#include <limits>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "gradsync/collective/collective.hpp"
#include "gradsync/collective/direct.hpp"
#include "gradsync/collective/double_tree.hpp"
#include "gradsync/collective/halving_doubling.hpp"
#include "gradsync/collective/native.hpp"
#include "gradsync/collective/recursive_doubling.hpp"
#include "gradsync/collective/ring.hpp"
#include "gradsync/collective/schedule.hpp"
#include "gradsync/collective/tree.hpp"
#include "gradsync/comm/transport.hpp"
#include "gradsync/core/error.hpp"

namespace gradsync {

/// A row of a tuning table, of an all-reduce.
struct tuning_row {
  std::size_t min_bytes = 0, max_bytes = std::numeric_limits<std::size_t>::max();
  std::string strategy = "native";
  int segments = -1;
  int hosts = -1, ranks = -1;  ///< -1: any number
  std::size_t line = 0;        ///< in its file, from 1

  friend bool operator==(const tuning_row&, const tuning_row&) = default;
};

namespace detail {

// f(strategy) for the one of this name, with so many segments, if it has a say in them. False: there is no such.
template <class F>
bool with_strategy(std::string_view name, int segments, F&& f) {
  const bool plain = segments < 0;
  if (name == "native" && plain) f(native{});
  else if (name == "direct" && plain) f(direct{});
  else if (name == "recursive_doubling" && plain) f(recursive_doubling{});
  else if (name == "halving_doubling" && plain) f(halving_doubling{});
  else if (name == "ring" && plain) f(ring{});
  else if (name == "tree") f(plain ? tree{} : tree{.segments = segments});
  else if (name == "double_tree") f(plain ? double_tree{} : double_tree{.segments = segments});
  else return false;
  return true;
}

template <class T>
bool parse_number(std::string_view text, T& value) {
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  return problem == std::errc{} && end == text.data() + text.size();
}

// A line of the table, or why it is none. `applies`: to the all-reduces of a buffer at a time.
inline std::string parse_tuning_row(std::string_view line, tuning_row& row, bool& applies) {
  std::array<std::string_view, 10> cells;
  std::size_t count = 0;
  for (bool more = true; more; ++count) {
    if (count == cells.size()) return "more than 10 columns";
    const std::size_t comma = line.find(',');
    more = comma != line.npos;
    std::string_view cell = line.substr(0, comma);
    while (!cell.empty() && (cell.front() == ' ' || cell.front() == '\t')) cell.remove_prefix(1);
    while (!cell.empty() && (cell.back() == ' ' || cell.back() == '\t' || cell.back() == '\r')) cell.remove_suffix(1);
    cells[count] = cell;
    line.remove_prefix(more ? comma + 1 : line.size());
  }
  if (count < 8) return "8 to 10 columns are needed, not " + std::to_string(count);
  applies = cells[0] == "allreduce";
  if (!applies) {
    for (const char* other : {"broadcast", "reduce", "allgather", "reducescatter"})
      if (cells[0] == other) return {};
    return "no collective is called '" + std::string(cells[0]) + "'";
  }
  row.strategy = cells[3];
  int pipelined = -1, registered = -1;
  if (!parse_number(cells[1], row.min_bytes) || !parse_number(cells[2], row.max_bytes) || row.min_bytes > row.max_bytes)
    return "'" + std::string(cells[1]) + "' to '" + std::string(cells[2]) + "' are no numbers of bytes";
  if (cells[4] != "simple" && cells[4] != "ll" && cells[4] != "ll128") return "no protocol is called '" + std::string(cells[4]) + "'";
  if (!parse_number(cells[5], row.segments) || row.segments < -1 || row.segments == 0)
    return "channels must be -1 or a number above 0, not '" + std::string(cells[5]) + "'";
  if (!parse_number(cells[6], row.hosts) || !parse_number(cells[7], row.ranks) || (count > 8 && !parse_number(cells[8], pipelined)) ||
      (count > 9 && !parse_number(cells[9], registered)))
    return "nNodes, nRanks, numPipeOps and regBuff must be numbers";
  if (!with_strategy(row.strategy, -1, [](const auto&) {}))
    return "no strategy is called '" + row.strategy +
           "'; there are native, direct, recursive_doubling, halving_doubling, tree, double_tree and ring";
  if (!with_strategy(row.strategy, row.segments, [](const auto&) {}))
    return row.strategy + " has no segments, so channels must be -1, not '" + std::string(cells[5]) + "'";
  applies = pipelined == -1 || pipelined == 1;
  return {};
}

}  // namespace detail

/// The rows of a table that speak of all-reduces. `usage_error` if a line is none, naming the line; `source` is what it says of the table.
inline std::vector<tuning_row> parse_tuning_table(std::string_view text, const std::string& source) {
  std::vector<tuning_row> rows;
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end == text.npos ? text.size() : end + 1);
    const std::size_t begin = line.find_first_not_of(" \t\r");
    if (begin == line.npos || line[begin] == '#') continue;
    tuning_row row{.line = number};
    bool applies = false;
    const std::string wrong = detail::parse_tuning_row(line, row, applies);
    if (!wrong.empty()) throw usage_error(source + ", line " + std::to_string(number) + ": " + wrong);
    if (applies) rows.push_back(row);
  }
  return rows;
}

/// What a collective chooses, as a table of this many ranks; on every rank the same. `usage_error` if it has a strategy that tables do not
/// know.
template <transport Communicator>
std::string tuning_table(const collective<Communicator>& sum) {
  std::string text = "# collective_type,min_bytes,max_bytes,algorithm,protocol,channels,nNodes,nRanks,numPipeOps,regBuff\n";
  const series<choice>& all = sum.choices();
  std::size_t from = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (!detail::ends_stretch(all, i)) continue;
    const program& p = sum.programs()[all[i].which].steps;
    const int segments = p.name == "tree" ? p.chunks : p.name == "double_tree" ? p.chunks / 2 : -1;
    if (!detail::with_strategy(p.name, segments, [](const auto&) {}))
      throw usage_error("a tuning table knows no strategy that is called " + p.name,
                        place_of(sum.communicator(), sum.communicator().rank()));
    const std::size_t to = i + 1 == all.size() ? std::numeric_limits<std::size_t>::max() : all[i].up_to;
    text += "allreduce," + std::to_string(from) + "," + std::to_string(to) + "," + p.name + ",simple," + std::to_string(segments) + ",-1," +
            std::to_string(p.size) + ",-1,-1\n";
    from = to + 1;
  }
  return text;
}

/// A rule that chooses by a tuning table. Rank 0 reads it, for all.
struct tuned {
  std::string file;        ///< on rank 0's host
  bool any_order = false;  ///< strategies that are not canonical are welcome; rank 0's word counts
  int hosts = 1;           ///< for rows that say nNodes; rank 0's word counts

  const char* name() const { return "tuned"; }

  /// All ranks together; blocks. `usage_error` on all of them if the file can't be read, has a wrong line, or asks for a strategy that is
  /// not canonical for this number of ranks, without `any_order`.
  template <transport Communicator>
  repertoire choose(Communicator& comm) const;

 private:
  // The rows for so many ranks, one stretch of bytes each, without gaps.
  static std::vector<tuning_row> stretches(std::vector<tuning_row> rows, int hosts, int ranks) {
    std::erase_if(rows, [&](const tuning_row& r) { return (r.hosts != -1 && r.hosts != hosts) || (r.ranks != -1 && r.ranks != ranks); });
    std::vector<std::size_t> begins{0};
    for (const tuning_row& r : rows) {
      begins.push_back(r.min_bytes);
      if (r.max_bytes != std::numeric_limits<std::size_t>::max()) begins.push_back(r.max_bytes + 1);
    }
    std::sort(begins.begin(), begins.end());
    begins.erase(std::unique(begins.begin(), begins.end()), begins.end());
    std::vector<tuning_row> all;
    for (std::size_t i = 0; i < begins.size(); ++i) {
      const auto of =
          std::find_if(rows.begin(), rows.end(), [at = begins[i]](const tuning_row& r) { return r.min_bytes <= at && at <= r.max_bytes; });
      all.push_back(of == rows.end() ? tuning_row{} : *of);
      all.back().min_bytes = begins[i];
      all.back().max_bytes = i + 1 == begins.size() ? std::numeric_limits<std::size_t>::max() : begins[i + 1] - 1;
    }
    return all;
  }

  std::string read() const {
    try {
      std::ifstream in(file, std::ios::binary);
      if (in.is_open()) return {std::istreambuf_iterator<char>(in), {}};
    } catch (const std::ios_base::failure&) {  // a folder can be opened, but not read
    }
    throw usage_error("the tuning table " + file + " can't be read");
  }
};

template <transport Communicator>
repertoire tuned::choose(Communicator& comm) const {
  // Rank 0 says what it has read, or what was wrong; the others judge the same text.
  std::string text, wrong;
  if (comm.rank() == 0) try {
      text = read();
    } catch (const usage_error& e) {
      wrong = e.message();
    }
  text = detail::broadcast_text(comm, text);
  wrong = detail::broadcast_text(comm, wrong);
  const std::string source = detail::broadcast_text(comm, file);
  const place here = place_of(comm, comm.rank());
  if (!wrong.empty()) throw usage_error(wrong, here);
  const bool any = comm.broadcast(any_order ? 1 : 0) != 0;
  const int on = comm.broadcast(hosts);
  std::vector<tuning_row> rows;
  try {
    rows = stretches(parse_tuning_table(text, source), on, comm.size());
  } catch (const usage_error& e) {
    throw usage_error(e.message(), here);
  }
  repertoire chosen;
  std::vector<tuning_row> known;  // of each program
  for (const tuning_row& row : rows) {
    std::size_t which = 0;
    while (which < known.size() && (known[which].strategy != row.strategy || known[which].segments != row.segments)) ++which;
    if (which == known.size()) {
      detail::with_strategy(row.strategy, row.segments, [&](const auto& strategy) { chosen.programs.push_back(prove(comm, strategy)); });
      if (!any && chosen.programs[which].reproducibility < level::canonical)
        throw usage_error(source + ", line " + std::to_string(row.line) + ": " + row.strategy + " on " + std::to_string(comm.size()) +
                              " ranks is not canonical; any_order admits it",
                          here);
      known.push_back(row);
    }
    chosen.choices.push_back({.up_to = row.max_bytes, .which = which, .seconds = 0});
  }
  return chosen;
}

}  // namespace gradsync
