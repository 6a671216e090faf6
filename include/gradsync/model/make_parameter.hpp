// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// Makes an entry of the list of parameters, or of states, from the object that a walk has come to, and checks what only its values tell.
///
///     parameter p = make_parameter(at, net.weight, grads.weight);   // usage_error: lengths or shapes that differ, gaps
#pragma once

#include <string>       // messages
#include <string_view>  // names
#include <type_traits>  // what is compared

#include "gradsync/core/error.hpp"
#include "gradsync/model/container.hpp"
#include "gradsync/model/parameter.hpp"
#include "gradsync/model/path.hpp"
#include "gradsync/model/shape.hpp"

namespace gradsync::detail {

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

// What stands beside a value and its gradient would be passed over: it may not hold parameters.
template <class T>
void check_alone(const path& at, T& x) {
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

template <class Value, class Grad>
parameter make_parameter_of(const path& at, const void* whole, Value& value, Grad& grad) {
  static_assert(space_of<Value>() == space_of<Grad>(), "gradsync: a value and its gradient lie in the same memory, host or device");
  check_gaps(at, value, grad);
  check_shapes(at, value, grad);
  if (elements_of(value).size() > 0 && memory_of(elements_of(value)).count == 0)
    throw usage_error("its value is a view of no memory; point it somewhere first", {.parameter = at.text()});
  parameter p{.type = dtype_of<element_type<Value>>(),
              .count = read<Value>(&value).count,
              .value_access = accessor_of<Value>(),
              .grad_access = accessor_of<Grad, Value>(),
              .aliases = {{at.text(), whole, &value, &grad}},
              .space = space_of<Value>()};
  check_lengths(p);
  return p;
}

/// Of an object that holds its gradient.
template <class T>
parameter make_parameter(const path& at, T& x) {
  if constexpr (has_access_describe<T>) {
    parameter p = parameter_access<T>::describe(x);
    p.aliases.front().name = at.text();
    check_lengths(p);
    return p;
  } else if constexpr (has_access_grad<T>) {
    parameter p{.type = dtype_of<element_type<T>>(), .count = read<T>(&x).count, .space = space_of<T>()};
    p.value_access.read = read<T>;
    p.grad_access.read = read_grad<T>;
    p.aliases.push_back({at.text(), &x, &x, &x});
    check_lengths(p);
    return p;
  } else {
    check_alone(at, x);
    return make_parameter_of(at, &x, x.value, x.grad);
  }
}

/// Of a value and its twin in a second object.
template <class T>
parameter make_parameter(const path& at, T& value, T& grad) {
  return make_parameter_of(at, &value, value, grad);
}

template <class T>
memory read_numbers(void* object) {
  T& x = *static_cast<T*>(object);
  if constexpr (contiguous<T>) return memory_of(x);
  else return {reinterpret_cast<std::byte*>(&x), sizeof(T) / sizeof(std::remove_all_extents_t<T>)};
}

template <class T>
consteval dtype dtype_of_number() {
  if constexpr (std::is_enum_v<T>) return dtype_of<std::underlying_type_t<T>>();
  else return dtype_of<T>();
}

/// Of numbers, a parameter or a container of floats inside a state; gradients are left out.
template <class T>
state_entry make_state(const path& at, T& x) {
  if constexpr (has_access_describe<T>) {
    const parameter p = parameter_access<T>::describe(x);
    return {
        .name = at.text(), .type = p.type, .count = p.count, .access = p.value_access, .object = p.aliases.front().value, .space = p.space};
  } else if constexpr (state_shape_of<T> == shape::numbers) {
    using number = typename decltype([] {
      if constexpr (contiguous<T>) return std::type_identity<std::remove_pointer_t<decltype(std::declval<T&>().data())>>{};
      else return std::type_identity<std::remove_all_extents_t<T>>{};
    }())::type;
    return {.name = at.text(),
            .type = dtype_of_number<number>(),
            .count = read_numbers<T>(&x).count,
            .access = {.read = read_numbers<T>},
            .object = &x,
            .space = space_of<T>()};
  } else if constexpr (has_value_and_grad<T> && !has_access_value<T>) return make_state(at, x.value);
  else {
    check_gaps(at, x);
    return {.name = at.text(),
            .type = dtype_of<element_type<T>>(),
            .count = read<T>(&x).count,
            .access = {.read = read<T>},
            .object = &x,
            .space = space_of<T>()};
  }
}

}  // namespace gradsync::detail
