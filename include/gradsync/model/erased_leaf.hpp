// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// A leaf of a walk whose type is forgotten, so that virtual functions can walk on: they cannot be templates.
///
/// A leaf that is to be reached through virtual hooks has `found(at, found_parameter)`, and, if it collects states,
/// `found(at, found_state)`.
#pragma once

#include <string_view>  // sentences

#include "gradsync/model/make_parameter.hpp"
#include "gradsync/model/parameter.hpp"
#include "gradsync/model/path.hpp"
#include "gradsync/model/shape.hpp"
#include "gradsync/model/visit.hpp"

namespace gradsync::detail {

inline constexpr char no_gradient[] =
    "this container of floats has no gradient: make it a struct of `value` and `grad`, pass a second object of the model's type that holds "
    "the gradients, or wrap it in gradsync::skip<>";
inline constexpr char two_gradients[] =
    "this type holds its gradient itself: leave out the second object, or put plain containers into both";

/// A parameter that a walk came by; its entry is only made if somebody asks.
struct found_parameter {
  void* object;
  void* twin;  ///< null: the object holds its gradient
  parameter (*make)(const path& at, void* object, void* twin);
  const char* refusal = nullptr;  ///< why it cannot be made
};

struct found_state {
  void* object;
  state_entry (*make)(const path& at, void* object);
};

class erased_leaf {
 public:
  static constexpr bool collects_states = true;  // whether it does is known at run time

  template <class Leaf>
  explicit erased_leaf(Leaf& leaf)
      : leaf_(&leaf), found_([](void* l, const path& at, const found_parameter& p) { static_cast<Leaf*>(l)->found(at, p); }) {
    if constexpr (detail::collects_states<Leaf>)
      found_state_ = [](void* l, const path& at, const found_state& s) { static_cast<Leaf*>(l)->found(at, s); };
  }

  template <class T>
  void operator()(const path& at, T& x) {
    if constexpr (shape_of<T> == shape::elements) found_(leaf_, at, {&x, nullptr, nullptr, no_gradient});
    else
      found_(leaf_, at,
             {&x, nullptr, [](const path& here, void* object, void*) { return make_parameter(here, *static_cast<T*>(object)); }});
  }
  template <class T>
  void operator()(const path& at, T& x, T& twin) {
    if constexpr (shape_of<T> != shape::elements) found_(leaf_, at, {&x, &twin, nullptr, two_gradients});
    else
      found_(leaf_, at, {&x, &twin, [](const path& here, void* object, void* other) {
                           return make_parameter(here, *static_cast<T*>(object), *static_cast<T*>(other));
                         }});
  }
  template <class T>
  void state(const path& at, T& x) {
    if (found_state_ != nullptr)
      found_state_(leaf_, at, {&x, [](const path& here, void* object) { return make_state(here, *static_cast<T*>(object)); }});
  }

 private:
  void* leaf_;
  void (*found_)(void* leaf, const path&, const found_parameter&);
  void (*found_state_)(void* leaf, const path&, const found_state&) = nullptr;
};

}  // namespace gradsync::detail
