// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// What a virtual hook is given, so that layers behind pointers to their base show their parameters.
///
///     struct layer {
///       virtual ~layer() = default;
///       virtual void visit_parameters(gradsync::parameter_visitor& visit) = 0;
///     };
///     struct linear : layer {
///       std::vector<float> weight, bias;
///       void visit_parameters(gradsync::parameter_visitor& visit) override {
///         visit.members_of(*this)("weight", weight)("bias", bias);      // any type that gradsync can look into, layers too
///       }
///     };
///     struct net { std::vector<std::unique_ptr<layer>> layers; };       // layers[3].weight
///
/// A class derived further inherits the hook, which does not know the members that it adds. Hence `members_of(*this)`: the hook says whose
/// members it shows, and if in the end nobody has shown those of the object's own class, `usage_error` says what to write:
///
///     void visit_parameters(gradsync::parameter_visitor& visit) override {
///       linear::visit_parameters(visit);
///       visit.members_of(*this)("scale", scale);
///     }
///
/// The hook may be called several times, and shows the same members in the same order each time; it stores nothing. A plain class may have
/// such a function too, and define it in a source file of its own. Costs one virtual call a layer and one a member; no allocation.
#pragma once

#include <cstddef>      // positions
#include <string_view>  // names
#include <type_traits>  // virtual functions
#include <typeinfo>     // classes of objects

#include "gradsync/core/error.hpp"
#include "gradsync/model/erased_leaf.hpp"
#include "gradsync/model/path.hpp"
#include "gradsync/model/visit.hpp"

namespace gradsync {
namespace detail {

/// How to walk into a member whose type is forgotten. The address of this object stands for the type.
struct member_type {
  void (*walk)(erased_leaf& leaf, const path& at, void* member, void* twin);  ///< null: no twin
  void (*walk_frozen)(erased_leaf& leaf, const path& at, void* member);       ///< inside a state
};

template <class Member>
inline constexpr member_type member_type_of{[](erased_leaf& leaf, const path& at, void* member, void* twin) {
                                              if (twin == nullptr) walk(leaf, at, *static_cast<Member*>(member));
                                              else walk(leaf, at, *static_cast<Member*>(member), *static_cast<Member*>(twin));
                                            },
                                            [](erased_leaf& leaf, const path& at, void* member) {
                                              as_state<erased_leaf> inner{leaf};
                                              walk(inner, at, *static_cast<Member*>(member));
                                            }};

// The address of the whole object that `x` is part of.
template <class T>
const void* whole(const T& x) {
  if constexpr (std::is_polymorphic_v<T>) return dynamic_cast<const void*>(&x);
  else return &x;
}

}  // namespace detail

class parameter_visitor {
 public:
  parameter_visitor(const parameter_visitor&) = delete;
  parameter_visitor& operator=(const parameter_visitor&) = delete;

  /// Shows a member: a parameter, or anything that holds some.
  template <class Member>
  parameter_visitor& operator()(std::string_view name, Member& member) {
    show(name, const_cast<std::remove_const_t<Member>*>(&member), detail::member_type_of<Member>);
    return *this;
  }

  /// Shows a member that belongs to the model and is not trained.
  template <class Member>
  parameter_visitor& state(std::string_view name, Member& member) {
    show_state(name, &member,
               [](detail::erased_leaf& leaf, const detail::path& at, void* x) { detail::walk_state(leaf, at, *static_cast<Member*>(x)); });
    return *this;
  }

  /// Says that this call of the hook shows all members of the class `Class`.
  template <class Class>
  parameter_visitor& members_of(const Class& self) {
    if constexpr (std::is_polymorphic_v<Class>) complete_ = complete_ || (typeid(self) == typeid(Class) && detail::whole(self) == object_);
    return *this;
  }

 protected:
  explicit parameter_visitor(const void* object) : object_(object) {}
  ~parameter_visitor() = default;

  bool complete() const { return complete_; }

 private:
  virtual void show(std::string_view name, void* member, const detail::member_type& type) = 0;
  virtual void show_state(std::string_view name, void* member, void (*walk)(detail::erased_leaf&, const detail::path&, void*)) = 0;

  const void* object_;
  bool complete_ = false;
};

namespace detail {

using walk_state_of = void (*)(erased_leaf&, const path&, void*);

/// Finds the member of a twin that has one position. States are not counted.
class twin_finder final : public parameter_visitor {
 public:
  twin_finder(const void* object, std::size_t position) : parameter_visitor(object), position_(position) {}

  void* found = nullptr;
  const member_type* type = nullptr;
  std::size_t count = 0;

 private:
  void show(std::string_view, void* member, const member_type& its_type) override {
    if (count++ != position_) return;
    found = member;
    type = &its_type;
  }
  void show_state(std::string_view, void*, walk_state_of) override {}

  std::size_t position_;
};

/// An object whose hook can be called, without its type; or none.
struct shown_twin {
  void* object = nullptr;
  void (*show)(void* object, parameter_visitor& visit) = nullptr;
};

enum class walk_mode : unsigned char { trained, frozen };

/// Walks into each member that a hook shows, beside that of its twin.
class walking_visitor final : public parameter_visitor {
 public:
  walking_visitor(const void* object, erased_leaf& leaf, const path& at, walk_mode mode)
      : parameter_visitor(object), leaf_(leaf), at_(at), mode_(mode) {}

  using parameter_visitor::complete;
  shown_twin twin{};
  std::size_t count = 0;

 private:
  void show(std::string_view name, void* member, const member_type& type) override {
    const path here{&at_, name};
    if (mode_ == walk_mode::frozen) return type.walk_frozen(leaf_, here, member);
    if (twin.object == nullptr) return type.walk(leaf_, here, member, nullptr);
    twin_finder other(twin.object, count++);
    twin.show(twin.object, other);
    if (other.found == nullptr || other.type != &type)
      throw usage_error("its twin among the gradients is of another type, or missing; build both alike", {.parameter = here.text()});
    type.walk(leaf_, here, member, other.found);
  }
  void show_state(std::string_view name, void* member, walk_state_of walk) override { walk(leaf_, path{&at_, name}, member); }

  erased_leaf& leaf_;
  const path& at_;
  walk_mode mode_;
};

inline void check_complete(const path& at, const walking_visitor& visit) {
  if (!visit.complete())
    throw usage_error(
        "no hook has shown the members of this object's own class: override visit_parameters in it, call the one of its base there, and "
        "say visit.members_of(*this)(\"bias\", bias)",
        {.parameter = at.text()});
}

template <class T>
void walk_shown_erased(erased_leaf& leaf, const path& at, walk_mode mode, T& x) {
  walking_visitor visit(whole(x), leaf, at, mode);
  x.visit_parameters(visit);
  if constexpr (std::is_polymorphic_v<T>) check_complete(at, visit);
}

template <class T>
void walk_shown_erased(erased_leaf& leaf, const path& at, walk_mode mode, T& x, T& twin) {
  if constexpr (std::is_polymorphic_v<T>)
    if (typeid(x) != typeid(twin))
      throw usage_error("its twin among the gradients is of another class; build both alike", {.parameter = at.text()});
  walking_visitor visit(whole(x), leaf, at, mode);
  visit.twin = {&twin, [](void* object, parameter_visitor& other) { static_cast<T*>(object)->visit_parameters(other); }};
  x.visit_parameters(visit);
  if constexpr (std::is_polymorphic_v<T>) check_complete(at, visit);
  twin_finder all(whole(twin), static_cast<std::size_t>(-1));
  twin.visit_parameters(all);
  if (all.count != visit.count)
    throw usage_error("its twin among the gradients has another number of members; build both alike", {.parameter = at.text()});
}

/// Walks into an object whose hook takes a `parameter_visitor`.
template <class Leaf, class T, class... Twin>
void walk_erased(Leaf& leaf, const path& at, T& x, Twin&... twin) {
  if constexpr (std::is_same_v<Leaf, erased_leaf>) walk_shown_erased(leaf, at, walk_mode::trained, x, twin...);
  else if constexpr (std::is_same_v<Leaf, as_state<erased_leaf>>) walk_shown_erased(leaf.leaf, at, walk_mode::frozen, x);
  else if constexpr (is_as_state<Leaf>) {
    erased_leaf erased(leaf.leaf);
    walk_shown_erased(erased, at, walk_mode::frozen, x);
  } else {
    erased_leaf erased(leaf);
    walk_shown_erased(erased, at, walk_mode::trained, x, twin...);
  }
}

}  // namespace detail
}  // namespace gradsync
