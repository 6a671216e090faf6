// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// Lists the states of a model: what belongs to it and is not trained (state.hpp).
///
///     struct norm { weights scale; gradsync::state<std::vector<float>> mean; };
///     for (const state_entry& s : states_of(model)) std::cout << s.name << ' ' << s.count << '\n';   // mean
#pragma once

#include <algorithm>  // the order of addresses
#include <cstddef>    // indices
#include <utility>    // moves

#include "gradsync/core/series.hpp"
#include "gradsync/model/erased_leaf.hpp"
#include "gradsync/model/make_parameter.hpp"
#include "gradsync/model/state.hpp"
#include "gradsync/model/walk.hpp"

namespace gradsync {
namespace detail {

template <class Visit>
struct collect_states_for {
  static constexpr bool collects_states = true;
  Visit& visit;

  template <class T>
  void operator()(const path&, T&) const {}
  void found(const path&, const found_parameter&) const {}
  template <class T>
  void state(const path& at, T& x) {
    visit(make_state(at, x));
  }
  void found(const path& at, const found_state& s) { visit(s.make(at, s.object)); }
};

}  // namespace detail

/// Calls `visit(const state_entry&)` for each state, in the order of the members; one that stands there twice, twice.
template <class Model, class Visit>
void for_each_state(Model& model, Visit&& visit) {
  detail::collect_states_for<Visit> leaf{visit};
  detail::walk(leaf, {}, model);
}

/// All states in model order; one that stands there under several names, under the first. Where gradients are a second object, only the
/// model is asked. `model` must outlive the list, and stay where it is. `usage_error`: what a walk refuses (walk.hpp).
template <class Model>
series<state_entry> states_of(Model& model) {
  series<state_entry> all, once;
  for_each_state(model, [&all](const state_entry& s) { all.push_back(s); });
  series<std::size_t> order(all.size());
  for (std::size_t i = 0; i < all.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return all[a].object != all[b].object ? all[a].object < all[b].object : a < b; });
  series<bool> again(all.size());
  for (std::size_t k = 1; k < order.size(); ++k) again[order[k]] = all[order[k]].object == all[order[k - 1]].object;
  for (std::size_t i = 0; i < all.size(); ++i)
    if (!again[i]) once.push_back(std::move(all[i]));
  return once;
}

}  // namespace gradsync
