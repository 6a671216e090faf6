// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// Do all ranks mean the same? Each rank describes its model, plan, options and compile flags in lines; the first line in which a rank
/// differs from rank 0 ends all ranks with one `mismatch_error` that names the rank, the parameter and both sides.
#pragma once

#include <cfloat>  // how expressions are evaluated
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "gradsync/comm/transport.hpp"
#include "gradsync/core/error.hpp"
#include "gradsync/core/reduce_op.hpp"
#include "gradsync/core/series.hpp"
#include "gradsync/model/parameter.hpp"
#include "gradsync/model/state.hpp"

namespace gradsync {

/// One thing that must be the same everywhere.
struct agreement {
  std::string subject;     ///< what it is: "bucket_bytes", or the path of a parameter or state
  std::string detail;      ///< how it is here: "1024 elements of float32"
  std::string advice;      ///< what to do about a difference
  bool parameter = false;  ///< a parameter or state
};

/// A parameter has the same path, number and type of elements everywhere.
inline agreement agreement_on(const parameter& p) {
  return {p.name(), std::to_string(p.count) + " elements of " + name_of(p.type), "build the model in the same order on every rank", true};
}

/// A state likewise.
inline agreement agreement_on(const state_entry& s) {
  return {s.name, std::to_string(s.count) + " elements of " + name_of(s.type) + " (state)",
          "build the model in the same order on every rank", true};
}

/// An option has the same value everywhere.
inline agreement agreement_on(std::string option, std::string value) {
  return {std::move(option), std::move(value), "give every rank the same options", false};
}

/// Compile flags that change bits: they decide how products and sums are rounded.
inline agreement compile_flags() {
  std::string flags = "FLT_EVAL_METHOD " + std::to_string(FLT_EVAL_METHOD);
#ifdef __FMA__
  flags += ", FMA";
#endif
#ifdef __AVX512F__
  flags += ", AVX-512";
#elif defined(__AVX__)
  flags += ", AVX";
#endif
#ifdef __clang__
  flags += ", clang " + std::to_string(__clang_major__);
#elif defined(__GNUC__)
  flags += ", gcc " + std::to_string(__GNUC__);
#endif
#ifdef __OPTIMIZE__
  flags += ", optimized";
#endif
  return {"compile flags", flags, "build the same program for every rank", false};
}

namespace detail {

inline std::string encode(series_view<agreement> items) {
  std::string text;
  for (const agreement& a : items) text += (a.parameter ? "p" : "o") + a.subject + '\t' + a.detail + '\n';
  return text;
}

// The n-th item of an encoded list, without its advice; an empty one where there is none.
inline agreement decoded(const std::string& text, std::size_t n) {
  std::size_t begin = 0;
  for (; n > 0 && begin < text.size(); --n) begin = text.find('\n', begin) + 1;
  if (begin >= text.size()) return {};
  const std::string_view one = std::string_view(text).substr(begin, text.find('\n', begin) - begin);
  const std::size_t tab = one.find('\t');
  if (tab == 0 || tab == one.npos) return {};  // somebody's names hold tabs or newlines
  return {std::string(one.substr(1, tab - 1)), std::string(one.substr(tab + 1)), {}, one.front() == 'p'};
}

// The parameter, a tab, and what is the matter with it. In all lists parameters and states come first.
inline std::string difference(series_view<agreement> mine, const std::string& first_rank) {
  std::size_t i = 0;
  for (; i < mine.size(); ++i)
    if (const agreement there = decoded(first_rank, i); mine[i].subject != there.subject || mine[i].detail != there.detail) break;
  const agreement here = i < mine.size() ? mine[i] : agreement{}, there = decoded(first_rank, i);
  const std::string same_order = "; build the model in the same order on every rank";
  if (here.parameter && !there.parameter) return here.subject + "\tis part of this rank's model, but not of rank 0's" + same_order;
  if (there.parameter && !here.parameter) return there.subject + "\tis part of rank 0's model, but not of this rank's" + same_order;
  if (here.subject != there.subject)
    return (here.parameter ? here.subject : "") + "\t" + (here.parameter ? "" : '"' + here.subject + "\" ") + "stands where rank 0 has \"" +
           there.subject + "\"; " + here.advice;
  const std::string subject = here.parameter ? here.subject + "\thas " : "\t" + here.subject + " is ";
  return subject + here.detail + ", rank 0 has " + there.detail + "; " + here.advice;
}

}  // namespace detail

/// Compares the lists of all ranks; blocks. `mismatch_error` on every rank if any two differ.
template <transport Communicator>
void check_agreement(Communicator& comm, series_view<agreement> items) {
  const std::string mine = detail::encode(items);
  const std::string rank0 = detail::broadcast_text(comm, mine, 0);
  const int first = comm.all_reduce(mine == rank0 ? comm.size() : comm.rank(), reduce_op::min);
  if (first == comm.size()) return;
  const std::string text = detail::broadcast_text(comm, comm.rank() == first ? detail::difference(items, rank0) : std::string{}, first);
  comm.barrier();  // nobody throws, and so fails the group, before all have the text
  const std::size_t tab = text.find('\t');
  place there = place_of(comm, first);
  there.parameter = text.substr(0, tab);
  throw mismatch_error(text.substr(tab + 1), there);
}

}  // namespace gradsync
