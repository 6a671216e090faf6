// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// Is the model still the one whose parameters were listed? Lists them once, and finds out later, before anybody follows an address of the
/// list, whether a parameter has come, gone, moved or changed its size: after `layers.pop_back()`, a `push_back` that reallocates,
/// a `unique_ptr` that was reset, a model that was moved from.
///
/// `check` walks the model anew, as it is now, and compares addresses and types with those of the list: no allocation, no look at what is
/// no longer there, a few ns a parameter. Names are asked for only when there is something to say. What it cannot see: a model that is gone
/// altogether, so the model must outlive it; and a variant whose new alternative has the same types and sizes at the same addresses.
///
///     watched_model watched(net);                // or (net, grads): the gradients are a second object of the same type
///     for (const parameter& p : watched.parameters()) …
///     watched.check();                           // gradsync "layers[4].weight": has come since …
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "gradsync/core/error.hpp"
#include "gradsync/core/series.hpp"
#include "gradsync/model/erased_leaf.hpp"
#include "gradsync/model/for_each_parameter.hpp"
#include "gradsync/model/for_each_state.hpp"
#include "gradsync/model/parameter.hpp"
#include "gradsync/model/state.hpp"
#include "gradsync/model/walk.hpp"

namespace gradsync {
namespace detail {

template <class T>
inline constexpr char kind_of = 0;  // its address stands for T

// Where a parameter's object is, and what: accessors made for another type must not look at it.
struct parameter_identity {
  const void* address;
  std::uintptr_t kind;

  friend bool operator==(const parameter_identity&, const parameter_identity&) = default;
};

template <class F>
struct identity_leaf {
  F& f;
  template <class T>
  void operator()(const path&, T& x) {
    f(parameter_identity{&x, reinterpret_cast<std::uintptr_t>(&kind_of<T>)});
  }
  void found(const path&, const found_parameter& p) { f(parameter_identity{p.object, reinterpret_cast<std::uintptr_t>(p.make)}); }
};

}  // namespace detail

template <class Model>
class watched_model {
 public:
  /// Throws as `parameters_of`.
  explicit watched_model(Model& model) : watched_model(model, nullptr, parameters_of(model)) {
    list_ = [](Model* m, Model*) {
      series<parameter> all;
      for_each_parameter(*m, [&all](const parameter& p) { all.push_back(p); });
      return all;
    };
  }
  watched_model(Model& model, Model& grads) : watched_model(model, &grads, parameters_of(model, grads)) {
    list_ = [](Model* m, Model* g) {
      series<parameter> all;
      for_each_parameter(*m, *g, [&all](const parameter& p) { all.push_back(p); });
      return all;
    };
  }

  /// Those of the model when it was listed, in model order.
  series_view<parameter> parameters() const { return parameters_; }

  /// Those that it has now, an entry for each name. Throws as `for_each_parameter`.
  series<parameter> list_now() const { return list_(model_, grads_); }

  /// The same, or none where it has become a model that can't be listed.
  series<parameter> list_if_possible() const {
    try {
      return list_now();
    } catch (...) {
      return {};
    }
  }

  /// The states that it has now: nobody keeps their addresses. Throws as `states_of`.
  series<state_entry> states_now() const { return states_of(*model_); }

  /// `usage_error` that names the first parameter that is not what and where it was.
  void check() const {
    std::size_t n = 0, same = 0;
    walk([&](const detail::parameter_identity& one) {
      if (n < walked_.size() && walked_[n] == one) ++same;
      ++n;
    });
    if (n != walked_.size() || same != n) throw difference(n > 0 ? list_now() : series<parameter>{});
    for (const parameter& p : parameters_)
      if (const std::size_t count = p.value().count; count != p.count)
        throw usage_error("has changed from " + std::to_string(p.count) + " elements to " + std::to_string(count) + since,
                          {.parameter = p.name()});
  }

 private:
  static constexpr const char* since =
      " since the synchronizer was made; parameters may not come, go, move or change their size while it lives: make another one "
      "afterwards";

  watched_model(Model& model, Model* grads, series<parameter>&& parameters)
      : model_(&model), grads_(grads), parameters_(std::move(parameters)) {
    walk([&](const detail::parameter_identity& one) { walked_.push_back(one); });
  }

  template <class F>
  void walk(F f) const {
    detail::identity_leaf<F> leaf{f};
    detail::walk(leaf, {}, *model_);
    if (grads_ != nullptr) detail::walk(leaf, {}, *grads_);
  }

  // Of the parameters that were, only names and addresses may be looked at.
  usage_error difference(series_view<parameter> now) const {
    const auto is_now = [&](const alias& was) {
      for (const parameter& p : now)
        if (p.name() == was.name) return &p.aliases.front();
      return static_cast<const alias*>(nullptr);
    };
    const auto was = [&](const std::string& name) {
      for (const parameter& p : parameters_)
        for (const alias& a : p.aliases)
          if (a.name == name) return true;
      return false;
    };
    for (const parameter& p : parameters_)
      for (const alias& a : p.aliases)
        if (is_now(a) == nullptr) return usage_error(std::string("has gone") + since, {.parameter = a.name});
    for (const parameter& p : now)
      if (!was(p.name())) return usage_error(std::string("has come") + since, {.parameter = p.name()});
    for (const parameter& p : parameters_)
      for (const alias& a : p.aliases)
        if (const alias* there = is_now(a); there->parameter != a.parameter || there->grad != a.grad)
          return usage_error(std::string("has moved") + since, {.parameter = a.name});
    return usage_error(std::string("a parameter is of another type, or they stand in another order,") + since);
  }

  Model *model_, *grads_;
  series<parameter> (*list_)(Model*, Model*) = nullptr;  // of the one of the two forms that the model has
  series<parameter> parameters_;
  series<detail::parameter_identity> walked_;  // in the order of the walk
};

}  // namespace gradsync
