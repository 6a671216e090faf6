// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// The α-β-γ model of a link: what a message and an addition cost (Thakur, Rabenseifner, Gropp 2005, section 3).
///
///     link{.alpha = 1e-6, .beta = 1e-10, .gamma = 2e-11}   // 1 µs a message, 10 GB/s, 50 GB/s of additions
#pragma once

namespace gradsync {

struct link {
  double alpha = 1e-6;   ///< seconds a message, whatever its size
  double beta = 1e-10;   ///< seconds a byte moved
  double gamma = 2e-11;  ///< seconds a byte added
};

}  // namespace gradsync
