// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// Lists the parameters of a model of any type, with their gradients.
///
/// A parameter is a class with members `value` and `grad` that are containers of floats; or, where the gradients are a second object of the
/// model's type, every container of floats, whose gradient is its twin there. Layers are found in members, in containers and in arrays;
/// names come out as paths: `layers[3].weight`. Other doors (lists, friends, foreign types, `skip`): parameter_access.hpp. A parameter
/// under several names (one value, one gradient) is tied: one entry with several aliases.
///
///     struct weights { std::vector<float> value, grad; };
///     struct net { weights w, b; float learning_rate; };
///     for (const parameter& p : parameters_of(model)) std::cout << p.name() << ' ' << p.count << '\n';   // w, then b
#pragma once

#include <algorithm>
#include <concepts>  // the twin has the model's type
#include <string>    // messages
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>  // the list

#include "gradsync/core/error.hpp"
#include "gradsync/model/parameter.hpp"
#include "gradsync/model/walk.hpp"

namespace gradsync {
namespace detail {

inline void check_lengths(const parameter& p) {
  if (const std::size_t grad = p.grad().count; grad != 0 && grad != p.count)
    throw usage_error(
        "the value has " + std::to_string(p.count) + " elements, its gradient " + std::to_string(grad) + "; give both the same length",
        {.parameter = p.name()});
}

template <class... Containers>
void check_gaps(const path& at, const Containers&... containers) {
  if ((has_gaps(containers) || ...))
    throw usage_error("its elements are not contiguous; copy them into a matrix of their own", {.parameter = at.text()});
}

// Matrices are compared as matrices: equal counts are not enough.
template <class Value, class Grad>
void check_shapes(const path& at, const Value& value, const Grad& grad) {
  if constexpr (requires { value.rows() + value.cols() + grad.rows() + grad.cols(); }) {
    if constexpr (requires { bool{Value::IsRowMajor} == bool{Grad::IsRowMajor}; })
      static_assert(Value::IsVectorAtCompileTime || bool{Value::IsRowMajor} == bool{Grad::IsRowMajor},
                    "gradsync: a value and its gradient are stored in the same order: make both row-major, or both column-major");
    if (grad.size() == 0 || (value.rows() == grad.rows() && value.cols() == grad.cols())) return;
    auto text = [](const auto& m) { return std::to_string(m.rows()) + " x " + std::to_string(m.cols()); };
    throw usage_error("the value is " + text(value) + ", its gradient " + text(grad) + "; give both the same shape",
                      {.parameter = at.text()});
  }
}

template <class Value, class Grad>
parameter make_parameter(const path& at, const void* whole, Value& value, Grad& grad) {
  check_gaps(at, value, grad);
  check_shapes(at, value, grad);
  parameter p{.type = dtype_of<element_type<Value>>(),
              .count = read<Value>(&value).count,
              .value_access = accessor_of<Value>(),
              .grad_access = accessor_of<Grad, Value>(),
              .aliases = {}};
  p.aliases.push_back({at.text(), whole, &value, &grad});
  return p;
}

// A foreign type that holds its gradient: one object is both.
template <class T>
parameter make_accessed_parameter(const path& at, T& x) {
  parameter p{.type = dtype_of<element_type<T>>(), .count = read<T>(&x).count, .value_access = {}, .grad_access = {}, .aliases = {}};
  p.value_access.read = read<T>;
  p.grad_access.read = read_grad<T>;
  p.aliases.push_back({at.text(), &x, &x, &x});
  return p;
}

template <class Visit>
struct collect {
  Visit& visit;
  std::size_t found = 0;

  template <class T>
  void operator()(const path& at, T& x) {
    static_assert(shape_of<T> != shape::elements,
                  "gradsync: this container of floats has no gradient: make it a struct of `value` and `grad`, pass a second object of the "
                  "model's type that holds the gradients, or wrap it in gradsync::skip<>");
    if constexpr (shape_of<T> == shape::elements) return;
    else if constexpr (has_access_grad<T>) hand_over(make_accessed_parameter(at, x));
    else {
      check_alone(at, x);
      hand_over(make_parameter(at, &x, x.value, x.grad));
    }
  }
  template <class T>
  void operator()(const path& at, T& value, T& grad) {
    static_assert(shape_of<T> != shape::pair,
                  "gradsync: this type holds its gradient itself: leave out the second object, or put plain containers into both");
    if constexpr (shape_of<T> == shape::elements) hand_over(make_parameter(at, &value, value, grad));
  }

 private:
  // What stands beside a value and its gradient would be passed over: it may not hold parameters.
  template <class T>
  static void check_alone(const path& at, T& x) {
    if constexpr (std::is_aggregate_v<T>) {
      if constexpr (!has_base<T> && field_count<T> <= most_fields)
        for_each_field(x, [&]<class Field>(std::string_view name, Field& field) {
          if constexpr (shape_of<Field> != shape::nothing)
            if (static_cast<const void*>(&field) != &x.value && static_cast<const void*>(&field) != &x.grad)
              throw usage_error("a struct with a value and a gradient is one parameter, so its member `" + std::string(name) +
                                    "` would be passed over; move it out of there, or wrap it in gradsync::skip<>",
                                {.parameter = at.text()});
        });
    }
  }

  void hand_over(const parameter& p) {
    check_lengths(p);
    ++found;
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
};

inline bool overlap(const memory& a, std::size_t a_bytes, const memory& b, std::size_t b_bytes) {
  return a.count > 0 && b.count > 0 && a.data < b.data + b_bytes && b.data < a.data + a_bytes;
}

// Whether `b`, whose value begins where that of `a` does, is the same parameter under another name. Throws `usage_error` for half a tie.
inline bool is_tied(const parameter& a, const parameter& b) {
  const memory value = a.value(), other = b.value(), grad = a.grad(), other_grad = b.grad();
  const bool one_value = value.data == other.data && a.count == b.count && a.type == b.type && a.count > 0;
  const bool one_grad = a.aliases.front().grad == b.aliases.front().grad || (grad.count > 0 && grad.data == other_grad.data);
  if (one_value && one_grad) return true;
  if (one_value)
    throw usage_error("shares its value with \"" + a.name() + "\", but not its gradient; let both names share the gradient too",
                      {.parameter = b.name()});
  if (overlap(value, a.bytes(), other, b.bytes()))
    throw usage_error("its value overlaps that of \"" + a.name() + "\"; a parameter is shared as a whole or not at all",
                      {.parameter = b.name()});
  if (overlap(grad, grad.count * size_of(a.type), other_grad, other_grad.count * size_of(b.type)))
    throw usage_error("its gradient overlaps that of \"" + a.name() + "\"; give each parameter its own", {.parameter = b.name()});
  return false;
}

// Finds parameters whose memory overlaps, `memory_of` being their values or their gradients: neighbours in the order of addresses.
template <class F>
void find_ties(const std::vector<parameter>& all, std::vector<std::size_t>& tied_to, F&& memory_of) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < all.size(); ++i)
    if (memory_of(all[i]).count > 0) order.push_back(i);
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    const std::byte *x = memory_of(all[a]).data, *y = memory_of(all[b]).data;
    return x != y ? x < y : a < b;
  });
  auto end = [&](std::size_t i) { return memory_of(all[i]).data + memory_of(all[i]).count * size_of(all[i].type); };
  for (std::size_t k = 1, farthest = 0; k < order.size(); ++k) {
    const std::size_t before = order[farthest], here = order[k];
    if (memory_of(all[here]).data < end(before) && is_tied(all[std::min(before, here)], all[std::max(before, here)]))
      tied_to[std::max(before, here)] = tied_to[std::min(before, here)];
    if (end(here) > end(before)) farthest = k;
  }
}

// One entry for each parameter, with all of its names.
inline std::vector<parameter> merge_tied(std::vector<parameter> all) {
  std::vector<std::size_t> tied_to(all.size());
  for (std::size_t i = 0; i < all.size(); ++i) tied_to[i] = i;
  find_ties(all, tied_to, [](const parameter& p) { return p.value(); });
  find_ties(all, tied_to, [](const parameter& p) { return p.grad(); });
  std::vector<parameter> merged;
  std::vector<std::size_t> place(all.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    place[i] = tied_to[i] == i ? merged.size() : place[tied_to[i]];
    if (tied_to[i] == i) merged.push_back(std::move(all[i]));
    else merged[place[i]].aliases.push_back(all[i].aliases.front());
  }
  return merged;
}

}  // namespace detail

/// Calls `visit(const parameter&)` for each parameter, in the order of the members; tied ones once for each name.
/// `usage_error`: a gradient of another length than its value (an empty one is fine), no parameter at all.
template <class Model, class Visit>
void for_each_parameter(Model& model, Visit&& visit) {
  detail::collect<Visit> leaf{visit};
  detail::walk(leaf, {}, model);
  if (leaf.found == 0)
    throw usage_error("the model has no parameter; a parameter is a struct with containers of floats `value` and `grad`");
}

/// The same for a model whose gradients are a second object of its type. `usage_error` also where the two differ in length, or are the same
/// object.
template <class Model, class Visit>
void for_each_parameter(Model& model, Model& grads, Visit&& visit) {
  if (&model == &grads) throw usage_error("model and gradients are one object; pass two");
  detail::collect<Visit> leaf{visit};
  detail::walk(leaf, {}, model, grads);
  if (leaf.found == 0) throw usage_error("the model has no parameter; in a pair of model and gradients, each container of floats is one");
}

/// All parameters in model order, those with one value and one gradient merged into one entry. `model` (and `grads`) must outlive the list,
/// and stay where they are. `usage_error` as above, and where a value is shared but not its gradient, or memory is shared in part.
template <class Model, std::same_as<Model>... Grads>
requires(sizeof...(Grads) <= 1) std::vector<parameter> parameters_of(Model& model, Grads&... grads) {
  std::vector<parameter> all;
  for_each_parameter(model, grads..., [&all](const parameter& p) { all.push_back(p); });
  return detail::merge_tied(std::move(all));
}

/// Calls `f(address)` for each parameter inside `x`: `x` may be a parameter, its value or gradient alone, a layer, or the model.
/// Each address is one of those in the parameter's `alias`. No allocation; for a single parameter it is a single call.
template <class T, class F>
void for_each_mark(const T& x, F&& f) {
  static_assert(detail::shape_of<T> != detail::shape::nothing, "gradsync: this holds no parameter, so there is nothing to mark");
  detail::mark<F> leaf{f};
  detail::walk(leaf, {}, const_cast<T&>(x));  // only addresses are taken
}

}  // namespace gradsync
