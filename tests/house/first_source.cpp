// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

#include <doctest/doctest.h>

#include "gradsync/gradsync.hpp"

namespace second {
std::size_t piece_bytes();
}

TEST_CASE("the library stands in two sources of one program") { CHECK(second::piece_bytes() == gradsync::detail::piece_bytes); }
