// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// One parameter of a user's model, without its type: what it is called, and how to find its value and gradient in the user's objects.
///
/// Data pointers are read afresh at each call, since users assign to their gradients (`net.bias.grad = …`); the objects themselves may not
/// move.
#pragma once

#include <cstddef>
#include <string>

#include "gradsync/core/dtype.hpp"
#include "gradsync/core/memory_space.hpp"
#include "gradsync/core/series.hpp"

namespace gradsync {

/// Contiguous elements inside a user's object, owned by it.
struct memory {
  std::byte* data = nullptr;
  std::size_t count = 0;
};

/// How to reach the elements of one of the user's objects. What its type cannot do is null.
struct accessor {
  memory (*read)(void* object) = nullptr;
  /// An owning, resizable type: takes the shape of the value object `like`; what its elements then hold is unspecified.
  void (*resize)(void* object, const void* like) = nullptr;
  void (*point)(void* object, std::byte* data, std::size_t count) = nullptr;  ///< a view that can be made to look elsewhere
  /// Elements of an object that does not know how many it has (a raw pointer): `read` tells only where they begin. 0: the object knows.
  std::size_t count = 0;

  /// The elements of `object`; none behind a null pointer.
  memory operator()(void* object) const {
    memory elements = read(object);
    if (count > 0) elements.count = elements.data != nullptr ? count : 0;
    return elements;
  }
};

/// One name under which a parameter stands in the model. Any of the addresses, handed to a mark, means this alias.
struct alias {
  std::string name;                 ///< path from the model: `layers[3].weight`
  const void* parameter = nullptr;  ///< the object that holds value and gradient, or the value object again
  void* value = nullptr;
  void* grad = nullptr;
};

/// A parameter, and all names that share its value (a tied parameter has several).
struct parameter {
  dtype type = dtype::float32;
  std::size_t count = 0;  ///< elements of the value
  accessor value_access{}, grad_access{};
  series<alias> aliases{};                  ///< in model order; never empty
  memory_space space = memory_space::host;  ///< of the elements of value and gradient

  const std::string& name() const { return aliases.front().name; }
  memory value() const { return value_access(aliases.front().value); }
  memory grad() const { return grad_access(aliases.front().grad); }
  std::size_t bytes() const { return count * size_of(type); }

  /// Gives an empty gradient the shape of its value. False, and nothing done, where the type of the gradient cannot be resized.
  bool resize_grad() const {
    if (grad_access.resize == nullptr) return false;
    for (const alias& a : aliases)
      if (grad_access(a.grad).count != count) grad_access.resize(a.grad, a.value);
    return true;
  }
};

}  // namespace gradsync
