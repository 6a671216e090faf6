// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

#include "gradsync/gradsync.hpp"

namespace second {
std::size_t piece_bytes();
std::size_t piece_bytes() { return gradsync::detail::piece_bytes; }
}  // namespace second
