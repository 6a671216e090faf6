// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// 64 bits that stand for all the values of a model, trained parameters and states: replicas hold the same bits if, but for one chance in
/// 2^64, their fingerprints are equal.
///
/// Depends on the bits of the values, their types, lengths and order (parameters first, then states); not on names, addresses, padding or
/// gradients. -0.0 and +0.0 differ, and so do two NaNs of different payload. Not a cryptographic hash. It reads eight bytes at a time,
/// several GB/s. The same on all machines of one byte order.
///
///     if (fingerprint(net) != rank_0s) …;   std::cout << to_hex(fingerprint(net));   // 16 digits
#pragma once

#include <bit>       // rotations
#include <concepts>  // the twin has the model's type
#include <cstdint>   // 64 bits
#include <cstring>   // values as words
#include <string>    // hexadecimal

#include "gradsync/core/error.hpp"
#include "gradsync/core/series.hpp"
#include "gradsync/model/for_each_parameter.hpp"
#include "gradsync/model/for_each_state.hpp"

namespace gradsync {
namespace detail {

// Four lanes, so that the multiplications of one need not wait for those of another. Each step is invertible in the lane and in the word:
// two inputs that differ in one word never meet again.
class fingerprint_state {
 public:
  void add(std::uint64_t word) { absorb(lanes_[0], word); }

  void add(const std::byte* data, std::size_t size) {
    std::size_t at = 0;
    for (; at + 32 <= size; at += 32)
      for (std::size_t i = 0; i < 4; ++i) absorb(lanes_[i], load(data + at + 8 * i, 8));
    for (; at < size; at += 8) absorb(lanes_[0], load(data + at, size - at < 8 ? size - at : 8));
    add(size);  // the last word was padded with zeros
  }

  std::uint64_t result() const {
    std::uint64_t all = lanes_[0];
    for (std::size_t lane = 1; lane < 4; ++lane) all = mix(all ^ mix(lanes_[lane] + lane));
    return mix(all);
  }

 private:
  static std::uint64_t load(const std::byte* data, std::size_t size) {
    std::uint64_t word = 0;
    std::memcpy(&word, data, size);
    return word;
  }
  static void absorb(std::uint64_t& lane, std::uint64_t word) {
    lane = std::rotl(lane ^ (word * 0x9E3779B97F4A7C15u), 29) * 0xD6E8FEB86659FD93u;
  }
  static std::uint64_t mix(std::uint64_t x) {
    x = (x ^ (x >> 32)) * 0xD6E8FEB86659FD93u;
    x = (x ^ (x >> 29)) * 0x9E3779B97F4A7C15u;
    return x ^ (x >> 32);
  }

  std::uint64_t lanes_[4] = {0x243F6A8885A308D3u, 0x13198A2E03707344u, 0xA4093822299F31D0u, 0x082EFA98EC4E6C89u};  // digits of pi
};

inline const std::string& name_of(const parameter& p) { return p.name(); }
inline const std::string& name_of(const state_entry& s) { return s.name; }

// Of the values of parameters, or of states.
template <class Entry>
void add_values(fingerprint_state& state, series_view<Entry> entries) {
  for (const Entry& e : entries) {
    if (e.space != memory_space::host)
      throw usage_error("a fingerprint is taken on the host, and these elements lie on a device; copy them first",
                        {.parameter = detail::name_of(e)});
    state.add(static_cast<std::uint64_t>(e.type));
    const memory value = e.value();
    state.add(value.data, value.count * size_of(e.type));
  }
}

}  // namespace detail

/// The fingerprint of the values in a list of parameters, and one of states. `usage_error`: elements that do not lie on the host.
inline std::uint64_t fingerprint(const series<parameter>& parameters, const series<state_entry>& states = {}) {
  detail::fingerprint_state state;
  detail::add_values<parameter>(state, parameters);
  detail::add_values<state_entry>(state, states);
  return state.result();
}

/// The fingerprint of a model, or of a model whose gradients are a second object. Throws as `parameters_of` and `states_of`.
template <class Model, std::same_as<Model>... Grads>
std::uint64_t fingerprint(const Model& model, const Grads&... grads) {
  Model& values = const_cast<Model&>(model);  // nothing is written
  return fingerprint(parameters_of(values, const_cast<Grads&>(grads)...), states_of(values));
}

/// 16 lower-case digits.
inline std::string to_hex(std::uint64_t bits) {
  std::string text(16, '0');
  for (std::size_t i = 16; i-- > 0; bits >>= 4) text[i] = "0123456789abcdef"[bits & 15];
  return text;
}

}  // namespace gradsync
