// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// A communicator with what was proved for its size: one strategy, or several and a rule which buffer gets which. The type depends on
/// neither, so both can be chosen at run time.
///
///     gradsync::collective sum{comm, gradsync::ring{}};         // one strategy
///     gradsync::collective sum{comm, gradsync::automatic{}};    // collective/automatic.hpp: by measurement
///     gradsync::synchronizer sync{net, sum};
///
/// A rule of your own is a type with `name()` and `choose(communicator)`:
///
///     struct by_size {
///       const char* name() const { return "by_size"; }
///       template <gradsync::transport Communicator>
///       gradsync::repertoire choose(Communicator& comm) const {
///         return {.programs = {prove(comm, tree{}), prove(comm, native{})}, .choices = {{.up_to = 4096, .which = 0}, {.which = 1}}};
///       }
///     };
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <string>
#include <utility>

#include "gradsync/collective/any_strategy.hpp"
#include "gradsync/collective/compile.hpp"
#include "gradsync/collective/native.hpp"
#include "gradsync/collective/placement.hpp"
#include "gradsync/collective/print.hpp"  // numbers in columns
#include "gradsync/collective/schedule.hpp"
#include "gradsync/collective/verify.hpp"
#include "gradsync/comm/transport.hpp"
#include "gradsync/core/error.hpp"
#include "gradsync/core/series.hpp"

namespace gradsync {

/// One rank's program, and what the proof says of its bits.
struct proved_program {
  program steps;
  level reproducibility = level::none;
};

namespace detail {

inline proved_program prove(const any_strategy& s, const place& here) {
  const proof p = verify(s);
  if (!p.holds())
    throw usage_error(std::string("strategy ") + s.name + " on " + std::to_string(s.size) + " ranks: " + describe(p.first), here);
  return {compile(s, here.rank, placement(s)), p.reproducibility};
}

}  // namespace detail

/// Proves the strategy for the communicator's size (256 ranks: within 50 ms) and compiles this rank's program; a fused one for its rounds,
/// where the communicator has no pass of its own. Where that pass adds in another order than the strategy, and says so
/// (`fused_is_canonical`), the bits are no more than agreed. `usage_error` if the strategy is wrong, with the first violation in words.
template <transport Communicator, strategy Strategy>
proved_program prove(const Communicator& communicator, const Strategy& strategy) {
  using channel = channel_of<Communicator>;
  proved_program proved =
      detail::prove(erased_strategy<Strategy>(strategy, communicator.size()), place_of(communicator, communicator.rank()));
  if constexpr (!fused_channel<channel>) proved.steps.fused = false;
  else if constexpr (requires { channel::fused_is_canonical; })
    if (proved.steps.fused && communicator.size() > 2 && !channel::fused_is_canonical)
      proved.reproducibility = std::min(proved.reproducibility, level::agreed);
  return proved;
}

/// Which program a buffer of at most `up_to` bytes runs, unless a choice before this one has it.
struct choice {
  std::size_t up_to = static_cast<std::size_t>(-1);  ///< bytes; larger buffers than all choices have get the last one
  std::size_t which = 0;                             ///< in repertoire::programs
  double seconds = 0;                                ///< predicted for `up_to` bytes; 0: not predicted
};

/// All that a collective may run. The same on all ranks, but for each program being the rank's own.
struct repertoire {
  series<proved_program> programs;  ///< at least one
  series<choice> choices;           ///< at least one, by ascending `up_to`
};

/// A rule that chooses strategies. All ranks ask it together, so it may communicate.
template <class T, class Communicator>
concept chooser = requires(const T& rule, Communicator& communicator) {
  { rule.name() } -> std::convertible_to<const char*>;
  { rule.choose(communicator) } -> std::same_as<repertoire>;
};

template <transport Communicator>
class collective {
 public:
  /// With one strategy. Throws what `prove` throws.
  template <strategy Strategy>
  collective(Communicator& communicator, const Strategy& strategy)
      : collective(communicator, strategy.name(), {.programs = {prove(communicator, strategy)}, .choices = {choice{}}}) {}

  /// With the strategies that a rule chooses. Whether it blocks is the rule's affair.
  template <chooser<Communicator> Rule>
  collective(Communicator& communicator, const Rule& rule) : collective(communicator, rule.name(), rule.choose(communicator)) {}

  /// With the transport's own all-reduce.
  explicit collective(Communicator& communicator) : collective(communicator, native{}) {}

  Communicator& communicator() const { return *communicator_; }

  /// What a buffer of so many bytes runs.
  const program& steps(std::size_t bytes = 0) const { return all_.programs[choice_of(bytes).which].steps; }
  /// The strategy of such a buffer.
  const std::string& name(std::size_t bytes) const { return steps(bytes).name; }
  /// Of the strategy, or of the rule.
  const std::string& name() const { return name_; }

  const series<proved_program>& programs() const { return all_.programs; }
  const series<choice>& choices() const { return all_.choices; }

  /// What the proof says of the bits: the least reproducible of all that may run.
  level reproducibility() const {
    level weakest = level::canonical;
    for (const proved_program& p : all_.programs) weakest = std::min(weakest, p.reproducibility);
    return weakest;
  }

 private:
  collective(Communicator& communicator, const char* name, repertoire all)
      : communicator_(&communicator), name_(name), all_(std::move(all)) {
    const auto usable = [&](const choice& c) { return c.which < all_.programs.size(); };
    const auto ascending = [](const choice& a, const choice& b) { return a.up_to < b.up_to; };
    if (all_.choices.empty() || !std::all_of(all_.choices.begin(), all_.choices.end(), usable) ||
        !std::is_sorted(all_.choices.begin(), all_.choices.end(), ascending))
      throw usage_error(name_ + ": choices must name programs that there are, by ascending bytes",
                        place_of(communicator, communicator.rank()));
  }

  const choice& choice_of(std::size_t bytes) const {
    const choice* best = all_.choices.data();
    for (const choice& c : all_.choices) {
      best = &c;
      if (bytes <= c.up_to) break;
    }
    return *best;
  }

  Communicator* communicator_;
  std::string name_;
  repertoire all_;
};

namespace detail {

inline bool ends_stretch(const series<choice>& all, std::size_t i) { return i + 1 == all.size() || all[i + 1].which != all[i].which; }

}  // namespace detail

/// In one line all that ranks must agree on: "native in 2 rounds of 4 chunks", or one such part for each stretch of bytes.
template <transport Communicator>
std::string summary(const collective<Communicator>& sum) {
  const series<choice>& all = sum.choices();
  std::string text;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (!detail::ends_stretch(all, i)) continue;
    const program& p = sum.programs()[all[i].which].steps;
    text += (text.empty() ? "" : ", then ") + p.name + " in " + std::to_string(p.rounds()) + " rounds of " + std::to_string(p.chunks) +
            " chunks";
    if (i + 1 < all.size()) text += " up to " + std::to_string(all[i].up_to) + " bytes";
  }
  return text;
}

/// Which buffer gets which strategy, and how long that is predicted to take: the first and the last line of each stretch of bytes that
/// gets the same.
///
///     automatic on 4 ranks: canonical
///      up to bytes  predicted us  rounds  chunks  strategy
///              256           2.9       4       1  tree
///             2048           4.1       4       1  tree
///             4096           4.8       2       4  native
///             more       21034.0       2       4  native
template <transport Communicator>
std::string describe(const collective<Communicator>& sum) {
  const auto right = [](const std::string& s, std::size_t width) { return std::string(s.size() < width ? width - s.size() : 0, ' ') + s; };
  const series<choice>& all = sum.choices();
  std::string text = sum.name() + " on " + detail::counted(sum.communicator().size(), "rank") + ": " + name_of(sum.reproducibility()) +
                     "\n up to bytes  predicted us  rounds  chunks  strategy\n";
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (!detail::ends_stretch(all, i) && i > 0 && !detail::ends_stretch(all, i - 1)) continue;
    const program& p = sum.programs()[all[i].which].steps;
    const auto tenths = static_cast<long long>(all[i].seconds * 1e7 + 0.5);
    text += right(i + 1 == all.size() ? "more" : std::to_string(all[i].up_to), 12);
    text += right(all[i].seconds > 0 ? std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) : "-", 14);
    text += right(std::to_string(p.rounds()), 8) + right(std::to_string(p.chunks), 8) + "  " + p.name + "\n";
  }
  return text;
}

}  // namespace gradsync
