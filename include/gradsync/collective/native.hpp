// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// Native: direct, as the pass that a transport has of its own.
///
/// The thread transport's fused pass reads all p inputs of the own slice, adds them in registers in the order of the canonical tree, and
/// writes all p outputs. That is what direct does in two rounds, so direct's proof is its proof. Transports that have no such pass run the
/// two rounds as they stand, when they are told that the program is not fused.
///
/// p ranks, n bytes:
///   rounds           one pass; 2 where there is none
///   cost             2 n bytes of memory traffic a rank, the optimum; by messages that of direct
///   everything else  as direct: sent per rank, scratch, reproducibility, owner
///
///     collective{comm, native{}}
#pragma once

#include "gradsync/collective/direct.hpp"
#include "gradsync/collective/schedule.hpp"

namespace gradsync {

struct native : direct {
  static constexpr bool fused = true;

  constexpr const char* name() const { return "native"; }
};

static_assert(sharding<native> && is_fused<native>());

}  // namespace gradsync
