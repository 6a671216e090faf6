// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// Two levels, for ranks that are near each other in groups and far from the others (processors of a node, nodes of a network): the inner
/// strategy reduces and scatters inside each group, the outer one sums each shard over the ranks that own it in their groups, and the
/// inner one gathers. Each level is a strategy of its own, so this is one line a level, and may itself be a level of another.
///
/// A group is `group` ranks that follow each other; the ranks at the same place of their groups are the outer strategy's group.
///
/// p ranks, n bytes, groups of g:
///   rounds           those of the inner strategy on g ranks and of the outer one on p/g
///   sent per rank    what both send, where the outer strategy has the n/g bytes that a rank owns: with two rings 2 n (p-1)/p bytes
///   cost             inner on g ranks with n bytes + outer on p/g ranks with n/g bytes (with the largest share, where shares differ)
///   scratch          the larger of what both need for their bytes
///   reproducibility  canonical if both parts are and g is a power of two (or there is only one level); else uniform if both parts are;
///                    else agreed
///   owner            if both parts have one: of the part of a shard, in the shard that it is in
///   papers           Cho, Finkler, Serrano, Kung, Hunter: BlueConnect: decomposing all-reduce for deep learning on heterogeneous network
///                    hierarchy, 2019; Jia et al.: Highly scalable deep learning training system with mixed-precision, 2018
///
/// The inner strategy needs a reduce-scatter half. Neither may join (`direct`, `native`), as a join is over all ranks, unless its level is
/// the only one. Refuses numbers of ranks that `group` does not divide.
///
///     collective{comm, hierarchical{ring{}, halving_doubling{}, 8}}
///     collective{comm, hierarchical<ring, hierarchical<ring, halving_doubling>>{.outer = {.group = 4}, .group = 8}}   // three levels
#pragma once

#include <bit>  // powers of two
#include <cstddef>
#include <string_view>  // the name
#include <type_traits>

#include "gradsync/collective/halving_doubling.hpp"
#include "gradsync/collective/ring.hpp"
#include "gradsync/collective/schedule.hpp"

namespace gradsync {

namespace detail {

// The same message with another peer and other chunks.
constexpr send redirected(const send&, int peer, int first, int count) { return {peer, first, count}; }
constexpr receive redirected(const receive& r, int peer, int first, int count) { return {peer, first, count, r.what}; }

template <strategy S>
constexpr bool joins(const S& s, int size) {
  bool found = false;
  for (int k = 0; k < s.rounds(size) && !found; ++k)
    for (int rank = 0; rank < size && !found; ++rank)
      s.round(k, rank, size, [&](auto message) {
        if constexpr (std::is_same_v<decltype(message), receive>) found = found || message.what == effect::join;
      });
  return found;
}

template <std::size_t Length>
struct letters {
  char text[Length + 1] = {};
};

template <class Inner, class Outer>
constexpr auto make_hierarchical_name() {
  constexpr std::string_view inner = Inner{}.name(), outer = Outer{}.name();
  constexpr std::string_view parts[] = {"hierarchical(", inner, ", ", outer, ")"};
  letters<16 + inner.size() + outer.size()> name;
  std::size_t end = 0;
  for (const std::string_view part : parts)
    for (const char letter : part) name.text[end++] = letter;
  return name;
}

template <class Inner, class Outer>
inline constexpr auto hierarchical_name = make_hierarchical_name<Inner, Outer>();

}  // namespace detail

template <strategy Inner = ring, strategy Outer = halving_doubling>
struct hierarchical {
  static_assert(sharding<Inner>,
                "gradsync: the inner strategy of hierarchical needs a reduce-scatter half, such as ring and halving_doubling have");

  Inner inner = {};
  Outer outer = {};
  int group = 8;  ///< ranks that follow each other; > 0

  constexpr const char* name() const { return detail::hierarchical_name<Inner, Outer>.text; }

  constexpr const char* refuses(int size) const {
    if (group < 1) return "a group of hierarchical has at least one rank";
    if (size % group != 0) return "hierarchical does only numbers of ranks that its group divides";
    if (const char* why = refusal(inner, group)) return why;
    if (const char* why = refusal(outer, size / group)) return why;
    const bool two_levels = group > 1 && group < size;
    if (two_levels && (detail::joins(inner, group) || detail::joins(outer, size / group)))
      return "the parts of hierarchical may not join: a join is over all ranks";
    return nullptr;
  }

  constexpr level claim(int size) const {
    const level in = inner.claim(group), out = outer.claim(size / group), both = in < out ? in : out;
    const bool a_tree = group == size || std::has_single_bit(static_cast<unsigned>(group));
    return both == level::canonical && !a_tree ? level::uniform : both;
  }

  constexpr int chunks(int size) const { return inner.chunks(group) * outer.chunks(size / group); }
  constexpr int rounds(int size) const { return inner.rounds(group) + outer.rounds(size / group); }

  template <class Post>
  constexpr void round(int k, int rank, int size, Post&& post) const {
    const int groups = size / group, place = rank % group, parts = outer.chunks(groups);  // of each inner chunk
    const int begin = inner.reduce_rounds(group), end = begin + outer.rounds(groups);
    if (k < begin || k >= end) {
      inner.round(k < begin ? k : k - (end - begin), place, group, [&](auto message) {
        post(detail::redirected(message, rank - place + detail::peer_of(message), message.first * parts, message.count * parts));
      });
    } else {
      outer.round(k - begin, rank / group, groups, [&](auto message) {
        for (int c = 0; c < inner.chunks(group); ++c)
          if (inner.owner(c, group) == place)
            post(detail::redirected(message, detail::peer_of(message) * group + place, c * parts + message.first, message.count));
      });
    }
  }

  constexpr int reduce_rounds(int size) const requires sharding<Outer> {
    return inner.reduce_rounds(group) + outer.reduce_rounds(size / group);
  }
  constexpr int owner(int chunk, int size) const requires sharding<Outer> {
    const int groups = size / group, parts = outer.chunks(groups);
    return outer.owner(chunk % parts, groups) * group + inner.owner(chunk / parts, group);
  }
};

template <class Inner, class Outer>
hierarchical(Inner, Outer, int) -> hierarchical<Inner, Outer>;

static_assert(sharding<hierarchical<ring, halving_doubling>>);

}  // namespace gradsync
