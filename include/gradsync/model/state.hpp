// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// What belongs to a model and is not trained: running statistics, frozen layers, counters.
///
/// `state<T>` wraps a member. All numbers inside are given to every rank at the start, and none of them is ever reduced: floats, integers,
/// bools and enums, alone, in arrays and in contiguous containers, and those of whole layers, of which gradients are ignored. Strings, maps
/// of settings and what is const are passed over; `skip` inside keeps a member out. In a second object, that holds the gradients, states
/// are ignored.
///
///     struct batch_norm {
///       weights scale, shift;                              // trained
///       gradsync::state<std::vector<float>> mean, variance;
///       gradsync::state<long> batches;
///     };
///     struct net { gradsync::frozen<encoder> body; linear head; };   // `frozen` is another name for it
///     net.body->layers[0].weight;                                    // used as if it were the T itself, by -> and by conversion
///
/// In a hook: `visit.state("mean", mean_)`. The list: `states_of(model)`, for_each_state.hpp.
#pragma once

#include <cstddef>      // counts
#include <string>       // names
#include <type_traits>  // what can be assigned
#include <utility>      // forward

#include "gradsync/core/dtype.hpp"
#include "gradsync/model/parameter.hpp"

namespace gradsync {

/// Holds a T all of whose numbers are given to every rank at the start, and none is trained.
template <class T>
struct state {
  T value{};

  constexpr operator T&() { return value; }
  constexpr operator const T&() const { return value; }
  constexpr T* operator->() { return &value; }
  constexpr const T* operator->() const { return &value; }
  constexpr T& operator*() { return value; }
  constexpr const T& operator*() const { return value; }

  template <class U>
  requires(std::is_assignable_v<T&, U> && !std::is_same_v<std::remove_cvref_t<U>, state>) constexpr state& operator=(U&& other) {
    value = std::forward<U>(other);
    return *this;
  }
};

/// The same, said of layers.
template <class T>
using frozen = state<T>;

/// One state of a user's model, without its type: numbers that lie one after the other in one of the user's objects.
struct state_entry {
  std::string name{};  ///< path from the model: `layers[3].mean`
  dtype type = dtype::float32;
  std::size_t count = 0;  ///< elements when it was listed
  accessor access{};
  void* object = nullptr;
  memory_space space = memory_space::host;

  /// Where the elements are now.
  memory value() const { return access(object); }
  std::size_t bytes() const { return count * size_of(type); }
};

namespace detail {

template <class T>
inline constexpr bool is_state = false;
template <class T>
inline constexpr bool is_state<state<T>> = true;

}  // namespace detail
}  // namespace gradsync
