// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// The first thing that ranks do together, so that nothing is built on a difference: they compare their parameters and states (path,
/// length, type), options, strategy and compile flags.
///
///     check_start(sum, parameters_of(net), states_of(net), {{"bucket_bytes", "26214400"}});   // blocks
#pragma once

#include <string>
#include <utility>

#include "gradsync/collective/collective.hpp"
#include "gradsync/comm/transport.hpp"
#include "gradsync/core/error.hpp"
#include "gradsync/core/series.hpp"
#include "gradsync/guard/consistency.hpp"
#include "gradsync/model/parameter.hpp"
#include "gradsync/model/state.hpp"

namespace gradsync {

namespace detail {

inline void check_reachable(const std::string& name, memory_space is, memory_space reached) {
  if (is == reached) return;
  const std::string wanted = reached == memory_space::host ? "host memory" : "the memory of this rank's device";
  const std::string found = is == memory_space::host ? "host memory" : "the memory of a CUDA device";
  throw usage_error("its elements lie in " + found + ", where the ranks of this communicator do not sum; keep value and gradient in " +
                        wanted + ", or take a communicator for " + found,
                    {.parameter = name});
}

}  // namespace detail

/// Options as names and values in words. `mismatch_error` on every rank that names the first difference. `usage_error` for elements that
/// ranks cannot reach.
template <transport Communicator>
void check_start(const collective<Communicator>& sum, series_view<parameter> parameters, series_view<state_entry> states,
                 const series<std::pair<std::string, std::string>>& options) {
  for (const parameter& p : parameters) detail::check_reachable(p.name(), p.space, Communicator::space);
  for (const state_entry& s : states)
    if (s.space != memory_space::host) detail::check_reachable(s.name, s.space, Communicator::space);
  series<agreement> items;
  for (const parameter& p : parameters) items.push_back(agreement_on(p));
  for (const state_entry& s : states) items.push_back(agreement_on(s));
  for (const auto& [name, value] : options) items.push_back(agreement_on(name, value));
  items.push_back(agreement_on("strategy", summary(sum)));
  items.push_back(compile_flags());
  check_agreement(sum.communicator(), items);
}

}  // namespace gradsync
