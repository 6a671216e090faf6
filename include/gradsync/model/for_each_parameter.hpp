// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// Lists the parameters of a model of any type, with their gradients.
///
/// A parameter is a class with members `value` and `grad` that are containers of floats; or, where the gradients are a second object of the
/// model's type, every container of floats, whose gradient is its twin there. Layers are found in members, containers, arrays, maps and
/// tuples, behind smart pointers (null: none), in optionals, and in variants: the alternative held now. Names come out as paths:
/// `layers[3].weight`, `blocks.encoder.bias`. Other doors: parameter_access.hpp (lists, friends, hooks, foreign types, `skip`), state.hpp
/// (what is not trained), parameter_visitor.hpp (layers behind pointers to their base), tensor_table.hpp (raw memory). A parameter under
/// several names (one value, one gradient; a shared_ptr that stands twice) is tied: one entry with several aliases.
///
///     struct weights { std::vector<float> value, grad; };
///     struct net { weights w, b; float learning_rate; };
///     for (const parameter& p : parameters_of(model)) std::cout << p.name() << ' ' << p.count << '\n';   // w, then b
#pragma once

#include <concepts>     // the twin has the model's type
#include <type_traits>  // pointers
#include <utility>      // moves

#include "gradsync/core/error.hpp"
#include "gradsync/core/series.hpp"
#include "gradsync/model/erased_leaf.hpp"
#include "gradsync/model/make_parameter.hpp"
#include "gradsync/model/parameter.hpp"
#include "gradsync/model/ties.hpp"
#include "gradsync/model/walk.hpp"

namespace gradsync {
namespace detail {

template <class Visit>
struct collect {
  Visit& visit;
  std::size_t count = 0;

  template <class T>
  void operator()(const path& at, T& x) {
    static_assert(shape_of<T> != shape::elements,
                  "gradsync: this container of floats has no gradient: make it a struct of `value` and `grad`, pass a second object of the "
                  "model's type that holds the gradients, or wrap it in gradsync::skip<>");
    if constexpr (shape_of<T> != shape::elements) hand_over(make_parameter(at, x));
  }
  template <class T>
  void operator()(const path& at, T& value, T& grad) {
    static_assert(shape_of<T> == shape::elements,
                  "gradsync: this type holds its gradient itself: leave out the second object, or put plain containers into both");
    if constexpr (shape_of<T> == shape::elements) hand_over(make_parameter(at, value, grad));
  }
  void found(const path& at, const found_parameter& p) {
    if (p.refusal != nullptr) throw usage_error(p.refusal, {.parameter = at.text()});
    hand_over(p.make(at, p.object, p.twin));
  }

 private:
  void hand_over(const parameter& p) {
    ++count;
    visit(p);
  }
};

template <class F>
struct mark {
  F& f;
  template <class T>
  void operator()(const path&, T& x) {
    f(static_cast<const void*>(&x));
  }
  void found(const path&, const found_parameter& p) { f(static_cast<const void*>(p.object)); }
};

}  // namespace detail

/// Calls `visit(const parameter&)` for each parameter, in the order of the members; tied ones once for each name.
/// `usage_error`: a gradient of another length than its value (an empty one is fine), no parameter at all.
template <class Model, class Visit>
void for_each_parameter(Model& model, Visit&& visit) {
  detail::collect<Visit> leaf{visit};
  detail::walk(leaf, {}, model);
  if (leaf.count == 0)
    throw usage_error("the model has no parameter; a parameter is a struct with containers of floats `value` and `grad`");
}

/// The same for a model whose gradients are a second object of its type. `usage_error` also where the two differ in length, or are the same
/// object.
template <class Model, class Visit>
void for_each_parameter(Model& model, Model& grads, Visit&& visit) {
  if (&model == &grads) throw usage_error("model and gradients are one object; pass two");
  detail::collect<Visit> leaf{visit};
  detail::walk(leaf, {}, model, grads);
  if (leaf.count == 0) throw usage_error("the model has no parameter; in a pair of model and gradients, each container of floats is one");
}

/// All parameters in model order, those with one value and one gradient merged into one entry. `model` (and `grads`) must outlive the list,
/// and stay where they are. `usage_error` as above, and where a value is shared but not its gradient, or memory is shared in part.
template <class Model, std::same_as<Model>... Grads>
requires(sizeof...(Grads) <= 1) series<parameter> parameters_of(Model& model, Grads&... grads) {
  series<parameter> all;
  for_each_parameter(model, grads..., [&all](const parameter& p) { all.push_back(p); });
  return detail::merge_tied(std::move(all));
}

/// Calls `f(address)` for each parameter inside `x`: `x` may be a parameter, its value or gradient alone, a layer, or the model; or a raw
/// pointer to floats, a member that stands for a tensor (tensor_table.hpp), whose own address it then is.
/// Each address is one of those in the parameter's `alias`. No allocation; for a single parameter it is a single call.
template <class T, class F>
void for_each_mark(const T& x, F&& f) {
  constexpr auto is = detail::shape_of<T>;
  static_assert(is != detail::shape::nothing && is != detail::shape::state,
                "gradsync: this holds no parameter, so there is nothing to mark");
  if constexpr (std::is_pointer_v<T> && std::is_floating_point_v<std::remove_pointer_t<T>>) f(static_cast<const void*>(&x));
  else {
    detail::mark<F> leaf{f};
    detail::walk(leaf, {}, const_cast<T&>(x));  // only addresses are taken
  }
}

}  // namespace gradsync
