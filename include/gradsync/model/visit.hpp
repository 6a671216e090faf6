// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// What a user's hook calls: `visit("weight", weight_)`, `visit.state("mean", mean_)`. Each call walks on into that member.
///
/// A hook shows one object. For a model whose gradients are a second object, the hook of the twin is called again for each member, up to
/// the one with the same position.
#pragma once

#include <cstddef>      // positions
#include <string_view>  // names
#include <type_traits>  // members of one type

#include "gradsync/core/error.hpp"
#include "gradsync/model/path.hpp"
#include "gradsync/model/shape.hpp"

namespace gradsync::detail {

template <class Leaf, class T, class... Twin>
void walk(Leaf& leaf, const path& at, T& x, Twin&... twin);
template <class Leaf, class T>
void walk_state(Leaf& leaf, const path& at, T& x);

template <class Leaf>
concept collects_states = requires {
  requires Leaf::collects_states;
};

// A leaf inside a state: all numbers are handed to `leaf.state`, and twins are left out.
template <class Leaf>
struct as_state {
  Leaf& leaf;
  template <class T>
  void operator()(const path& at, T& x) {
    leaf.state(at, x);
  }
};
template <class Leaf>
inline constexpr bool is_as_state = false;
template <class Leaf>
inline constexpr bool is_as_state<as_state<Leaf>> = true;

template <class Leaf>
struct visit_alone {
  Leaf& leaf;
  const path& at;

  template <class Member>
  void operator()(std::string_view name, Member& member) const {
    walk(leaf, path{&at, name}, member);
  }
  template <class Member>
  void state(std::string_view name, Member& member) const {
    walk_state(leaf, path{&at, name}, member);
  }
};

// Calls `found(member)` for the member at one position, if it is of type Member. States are not counted.
template <class Member, class Found>
struct visit_nth {
  std::size_t position;
  Found& found;
  std::size_t count = 0;

  template <class Other>
  void operator()(std::string_view, Other& other) {
    if constexpr (std::is_same_v<Other, Member>)
      if (count == position) found(other);
    ++count;
  }
  template <class Other>
  void state(std::string_view, Other&) const {}
};

template <class Leaf, class Call, class T>
struct visit_beside {
  Leaf& leaf;
  const path& at;
  Call call;
  T& twin;
  std::size_t position = 0;

  template <class Member>
  void operator()(std::string_view name, Member& member) {
    const path here{&at, name};
    bool found = false;
    auto meet = [&](Member& other) {
      found = true;
      walk(leaf, here, member, other);
    };
    visit_nth<Member, decltype(meet)> search{position++, meet};
    call(twin, search);
    if (!found)
      throw usage_error("its twin among the gradients is of another type, or missing; build both alike", {.parameter = here.text()});
  }
  template <class Member>
  void state(std::string_view name, Member& member) const {
    walk_state(leaf, path{&at, name}, member);
  }
};

struct count_members {
  std::size_t count = 0;
  template <class Member>
  void operator()(std::string_view, Member&) {
    ++count;
  }
  template <class Member>
  void state(std::string_view, Member&) const {}
};

template <class Leaf, class Call, class T>
void walk_visited(Leaf& leaf, const path& at, Call call, T& x) {
  visit_alone<Leaf> visit{leaf, at};
  call(x, visit);
}

template <class Leaf, class Call, class T>
void walk_visited(Leaf& leaf, const path& at, Call call, T& x, T& twin) {
  count_members here, there;
  call(x, here);
  call(twin, there);
  if (here.count != there.count)
    throw usage_error("its twin among the gradients has another number of members; build both alike", {.parameter = at.text()});
  visit_beside<Leaf, Call, T> visit{leaf, at, call, twin};
  call(x, visit);
}

}  // namespace gradsync::detail
