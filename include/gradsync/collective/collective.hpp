// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// A communicator with a strategy that was proved for its size. The type does not depend on the strategy, so one can be chosen at run time.
///
///     gradsync::collective sum{comm, gradsync::ring{}};
///     gradsync::synchronizer sync{net, sum};
#pragma once

#include <string>

#include "gradsync/collective/compile.hpp"
#include "gradsync/collective/native.hpp"
#include "gradsync/collective/schedule.hpp"
#include "gradsync/collective/verify.hpp"
#include "gradsync/comm/transport.hpp"
#include "gradsync/core/error.hpp"

namespace gradsync {

template <transport Communicator>
class collective {
 public:
  /// Proves the strategy for the communicator's size (256 ranks: within 50 ms) and compiles this rank's program.
  /// `usage_error` if the strategy is wrong, with the first violation in words.
  template <strategy Strategy>
  collective(Communicator& communicator, const Strategy& strategy)
      : communicator_(&communicator), reproducibility_(prove(communicator, strategy)),
        program_(compile(strategy, communicator.rank(), communicator.size())) {}

  /// With the transport's own all-reduce.
  explicit collective(Communicator& communicator) : collective(communicator, native{}) {}

  Communicator& communicator() const { return *communicator_; }
  const program& steps() const { return program_; }
  const std::string& name() const { return program_.name; }

  /// What the proof says of the bits.
  level reproducibility() const { return reproducibility_; }

 private:
  template <strategy Strategy>
  static level prove(const Communicator& communicator, const Strategy& strategy) {
    const int size = communicator.size();
    const proof p = verify(strategy, size);
    if (!p.holds())
      throw usage_error(std::string("strategy ") + strategy.name() + " on " + std::to_string(size) + " ranks: " + describe(p.first),
                        place_of(communicator, communicator.rank()));
    return p.reproducibility;
  }

  Communicator* communicator_;
  level reproducibility_;
  program program_;
};

}  // namespace gradsync
