// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// A model that is raw memory: a struct of pointers and one of their gradients (as in llm.c), or tensors one after the other in an arena.
///
/// The table is the model that gradsync sees; pointers and arenas are read afresh at each step, and stay where they are.
///
///     struct tensors { float *wte, *wpe, *lnfw; };                       // 16 of them in llm.c
///     gradsync::tensor_table table{model.params, model.grads, model.param_sizes};   // names from the members, counts in their order
///     gradsync::synchronizer sync{table, comm};
///     sync.mark_ready(model.grads.wte);                                  // the pointer member itself stands for the tensor
///
///     std::vector<float> values(n), grads(n);
///     gradsync::tensor_table arena{values, grads, {{"wte", 50257 * 768}, {"", 48}, {"wpe", 1024 * 768}}};   // no name: padding
///     sync.mark_ready(arena["wte"]);
///
/// With `part_bytes` a tensor larger than that becomes several parameters, `wte[0]`, `wte[1]`, …, so that it travels in several buckets;
/// it is then marked by `table["wte"]` or `table[model.grads.wte]`. Tensors that follow each other in memory can be adopted.
///
/// Errors: `usage_error` for a null value pointer, another number of counts than of pointers, tensors that do not fill their arena; for
/// memory that overlaps, when the parameters are listed. A null gradient has not been allocated yet.
#pragma once

#include <algorithm>    // parts
#include <cstddef>      // counts
#include <span>         // lists of counts
#include <string>       // names
#include <string_view>  // names
#include <type_traits>  // pointers
#include <utility>      // moves
#include <vector>       // the tensors

#include "gradsync/core/error.hpp"
#include "gradsync/model/container.hpp"
#include "gradsync/model/parameter.hpp"
#include "gradsync/model/parameter_access.hpp"
#include "gradsync/model/reflect.hpp"

namespace gradsync {

/// A tensor of an arena: it begins where the one before it ends. Without a name it is padding.
struct arena_tensor {
  std::string name;
  std::size_t count = 0;  ///< elements
};

struct tensor_table_options {
  std::size_t part_bytes = 0;  ///< larger tensors become several parameters of at most so many bytes; 0: each is one
};

namespace detail {

// An object that knows where elements begin: a pointer of the user's, or an arena.
struct tensor_source {
  void* object;
  memory (*read)(void* object);
};

template <class T>
memory read_pointer(void* object) {
  return {reinterpret_cast<std::byte*>(*static_cast<T**>(object)), 0};
}

/// A parameter of a table: some of the elements that begin at a pointer, or in an arena.
template <class T>
struct tensor_part {
  tensor_source value, grad;
  std::size_t first, count;
  bool whole_pointers;  ///< everything behind two pointers, which may be marked in its place

  memory read(const tensor_source& from) const {
    const memory all = from.read(from.object);
    const bool there = all.data != nullptr && (from.read == &read_pointer<T> || all.count >= first + count);
    return there ? memory{all.data + first * sizeof(T), count} : memory{};
  }
};

// The element type of a struct of pointers.
template <class Pointers>
auto pointee_of(Pointers& all) {
  return with_fields<field_count<Pointers>>(
      all, [](auto& first, auto&...) { return std::type_identity<std::remove_pointer_t<std::remove_reference_t<decltype(first)>>>{}; });
}

}  // namespace detail

template <class T>
struct parameter_access<detail::tensor_part<T>> {
  static parameter describe(detail::tensor_part<T>& x) {
    parameter p{.type = dtype_of<T>(), .count = x.count};
    if (x.whole_pointers) {
      p.value_access.read = detail::read_pointer<T>;
      p.value_access.count = x.count;
      p.grad_access = p.value_access;
      p.aliases.push_back({"", &x, x.value.object, x.grad.object});
    } else {
      using part = detail::tensor_part<T>;
      p.value_access.read = [](void* object) { return static_cast<part*>(object)->read(static_cast<part*>(object)->value); };
      p.grad_access.read = [](void* object) { return static_cast<part*>(object)->read(static_cast<part*>(object)->grad); };
      p.aliases.push_back({"", &x, &x, &x});
    }
    return p;
  }
};

template <gradient_element T = float>
class tensor_table {
 public:
  /// A tensor that two pointers of the user's lead to.
  struct tensor {
    std::string name;
    T** value = nullptr;  ///< the address of the user's pointer
    T** grad = nullptr;
    std::size_t count = 0;
  };

  /// From a list: `{{"wte", &params.wte, &grads.wte, 50257 * 768}, …}`.
  explicit tensor_table(std::vector<tensor> tensors, const tensor_table_options& options = {}) {
    for (tensor& t : tensors) add(std::move(t), options);
  }

  /// From two structs of pointers, whose members' names and order are those of the tensors.
  template <class Pointers>
  requires std::is_aggregate_v<Pointers> tensor_table(Pointers& values, Pointers& grads, std::span<const std::size_t> counts,
                                                      const tensor_table_options& options = {}) {
    if (counts.size() != field_count<Pointers>)
      throw usage_error("the struct has " + std::to_string(field_count<Pointers>) + " pointers, the list of counts " +
                        std::to_string(counts.size()) + " entries; give one count for each pointer, in order");
    for_each_field(values, grads, [&](std::string_view name, auto& value, auto& grad) {
      static_assert(std::is_same_v<std::remove_reference_t<decltype(value)>, T*>,
                    "gradsync: a table of tensors is made of a struct whose members are all float*, or all double*");
      add({std::string(name), &value, &grad, counts[tensors_.size()]}, options);
    });
  }

  /// From two arenas, containers of floats that hold the tensors one after the other.
  template <float_container Values, float_container Grads>
  requires(std::is_same_v<element_type<Values>, T>&& std::is_same_v<element_type<Grads>, T>)
      tensor_table(Values& values, Grads& grads, const std::vector<arena_tensor>& tensors, const tensor_table_options& options = {}) {
    const detail::tensor_source value{&values, detail::read<Values>}, grad{&grads, detail::read<Grads>};
    std::size_t first = 0;
    for (const arena_tensor& t : tensors) {
      if (!t.name.empty()) split(t.name, {value, grad, first, t.count, false}, options);
      first += t.count;
    }
    check_fill(first, value, "values");
    if (grad.read(grad.object).count > 0) check_fill(first, grad, "gradients");
  }

  /// A tensor, to be marked: by its name, or by the pointer member that leads to its value or gradient.
  std::vector<detail::tensor_part<T>>& operator[](std::string_view name) {
    for (named_parts& t : tensors_)
      if (t.name == name) return t.parts;
    throw usage_error("there is no tensor \"" + std::string(name) + "\" in this table");
  }
  std::vector<detail::tensor_part<T>>& operator[](T* const& pointer) {
    for (named_parts& t : tensors_)
      if (t.parts.front().value.object == &pointer || t.parts.front().grad.object == &pointer) return t.parts;
    throw usage_error("this pointer is no member of this table; give the member itself, not a copy");
  }

  template <class Visit>
  void visit_parameters(Visit& visit) {
    for (named_parts& t : tensors_) {
      if (t.parts.size() == 1) visit(t.name, t.parts.front());
      else visit(t.name, t.parts);
    }
  }

 private:
  struct named_parts {
    std::string name;
    std::vector<detail::tensor_part<T>> parts;
  };

  void add(tensor t, const tensor_table_options& options) {
    if (t.value == nullptr || t.grad == nullptr || *t.value == nullptr)
      throw usage_error("its value is a null pointer; allocate the tensors before the table is made", {.parameter = t.name});
    split(std::move(t.name), {{t.value, detail::read_pointer<T>}, {t.grad, detail::read_pointer<T>}, 0, t.count, true}, options);
  }

  void split(std::string name, const detail::tensor_part<T>& whole, const tensor_table_options& options) {
    named_parts& t = tensors_.emplace_back(named_parts{std::move(name), {}});
    constexpr std::size_t line = 64 / sizeof(T);
    const std::size_t most = options.part_bytes == 0 ? whole.count : std::max(options.part_bytes / sizeof(T) / line, std::size_t{1}) * line;
    if (whole.count <= most) return t.parts.push_back(whole);
    for (std::size_t at = 0; at < whole.count; at += most)
      t.parts.push_back({whole.value, whole.grad, whole.first + at, std::min(most, whole.count - at), false});
  }

  static void check_fill(std::size_t count, const detail::tensor_source& arena, const std::string& what) {
    const std::size_t there = arena.read(arena.object).count;
    if (there != count)
      throw usage_error("the tensors take " + std::to_string(count) + " elements, the arena of the " + what + " has " +
                        std::to_string(there) + "; list every tensor, and padding without a name");
  }

  std::vector<named_parts> tensors_;
};

template <class Pointers>
requires std::is_aggregate_v<Pointers> tensor_table(Pointers&, Pointers&, std::span<const std::size_t>, const tensor_table_options& = {})
->tensor_table<typename decltype(detail::pointee_of(std::declval<Pointers&>()))::type>;
template <float_container Values, float_container Grads>
tensor_table(Values&, Grads&, const std::vector<arena_tensor>&, const tensor_table_options& = {}) -> tensor_table<element_type<Values>>;

}  // namespace gradsync
