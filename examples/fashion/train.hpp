// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// The whole training as one call, so that the program and the tests run the same.
#pragma once

#include <cstdint>

#include "examples/fashion/options.hpp"
#include "examples/fashion/report.hpp"

namespace fashion {

struct training_result {
  double loss = 0, accuracy = 0;  ///< of the last whole epoch
  std::uint64_t fingerprint = 0;  ///< of the bits of rank 0's weights
  bool replicas_agree = false;    ///< every rank's weights have this fingerprint
  int signal = 0;                 ///< what interrupted the training; 0: nothing did
};

/// Reads the data, opens the output files, trains with `chosen.ranks` replicas. Throws `data_error`, std::runtime_error for a file that
/// can't be written, and what gradsync throws.
training_result train(const options& chosen, report& show);

}  // namespace fashion
