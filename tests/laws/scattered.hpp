// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// What the laws of streams and transports work on: buffers in pieces with guard words around each, and numbers that every rank can make
/// for any other.
///
///     scattered<float> buffer(numbers<float>(seed, rank, 1000), pieces_of(1000, seed));
///     channel.post(program, {.buffer = buffer.view()});
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>
#include <vector>

#include "gradsync/core/aligned_bytes.hpp"
#include "gradsync/core/buffer_view.hpp"
#include "tests/laws/scalar.hpp"

namespace gradsync::laws {

/// A number for each key, as random as need be (splitmix64).
constexpr std::uint64_t mixed(std::uint64_t key) {
  key += 0x9e3779b97f4a7c15u;
  key = (key ^ (key >> 30)) * 0xbf58476d1ce4e5b9u;
  key = (key ^ (key >> 27)) * 0x94d049bb133111ebu;
  return key ^ (key >> 31);
}

enum class numbers_kind { integers, reals };

/// The n numbers of a rank: integers whose sums are exact in any order, or reals whose sums depend on it.
template <class T>
std::vector<T> numbers(std::uint64_t seed, int rank, std::size_t n, numbers_kind kind = numbers_kind::reals) {
  std::vector<T> all(n);
  for (std::size_t i = 0; i < n; ++i) {
    const std::uint64_t bits = mixed(mixed(seed * 1000 + static_cast<std::uint64_t>(rank)) + i);
    if constexpr (std::is_floating_point_v<T>) {
      if (kind == numbers_kind::integers) all[i] = static_cast<T>(static_cast<std::int64_t>(bits % 2001) - 1000);
      else all[i] = static_cast<T>(static_cast<std::int64_t>(bits)) * static_cast<T>(1 << (bits & 15)) * T(1e-21);
    } else {
      all[i] = static_cast<T>(bits % 11);  // few enough for the sum over ten ranks to fit into 8 bits
    }
  }
  return all;
}

template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

/// Lengths of pieces that are n elements together; each seed cuts elsewhere, and some pieces are empty.
inline std::vector<std::size_t> pieces_of(std::size_t n, std::uint64_t seed) {
  const std::size_t few = mixed(seed) % 5 + 1;
  std::vector<std::size_t> pieces;
  for (std::size_t i = 0, left = n; i < few; ++i) {
    const std::size_t one = i + 1 == few ? left : mixed(seed * 7 + i) % 4 == 0 ? 0 : mixed(seed * 11 + i) % (left + 1);
    pieces.push_back(one);
    left -= one;
  }
  return pieces;
}

/// Where blocks of lent memory come from: a transport whose ranks reach shared memory only has its own put here, in each of its processes.
using block_source = aligned_bytes (*)(std::size_t bytes);
inline block_source make_block = [](std::size_t bytes) { return aligned_bytes(bytes); };

/// A buffer that lies in pieces, each in a block of memory of its own, off the alignment of vectors and with guard words at both ends.
template <class T>
class scattered {
 public:
  scattered(const std::vector<T>& values, const std::vector<std::size_t>& pieces) : blocks_(pieces.size()) {
    std::size_t first = 0;
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      const std::size_t guard = guard_of(i);
      blocks_[i] = make_block((guard + pieces[i] + guard) * sizeof(T));
      std::fill_n(blocks_[i].data(), blocks_[i].size(), fill);
      std::byte* const data = blocks_[i].data() + guard * sizeof(T);
      if (pieces[i] > 0) std::memcpy(data, values.data() + first, pieces[i] * sizeof(T));
      extents_.push_back({data, first, pieces[i]});
      first += pieces[i];
    }
  }
  explicit scattered(const std::vector<T>& values) : scattered(values, {values.size()}) {}
  scattered(const scattered&) = delete;  // the extents say where the blocks are
  scattered& operator=(const scattered&) = delete;

  buffer_view view() const { return {dtype_of<T>(), extents_}; }

  std::vector<T> values() const {
    std::vector<T> all(view().count());
    for (const extent& e : extents_)
      if (e.count > 0) std::memcpy(all.data() + e.first, e.data, e.count * sizeof(T));
    return all;
  }

  bool guards_intact() const {
    for (std::size_t i = 0; i < blocks_.size(); ++i)
      for (std::size_t b = 0; b < guard_of(i) * sizeof(T); ++b)
        if (blocks_[i].data()[b] != fill || blocks_[i].data()[blocks_[i].size() - 1 - b] != fill) return false;
    return true;
  }

 private:
  static constexpr std::byte fill{0xA5};
  static std::size_t guard_of(std::size_t piece) { return 17 + piece % 13; }

  std::vector<aligned_bytes> blocks_;
  std::vector<extent> extents_;
};

}  // namespace gradsync::laws
