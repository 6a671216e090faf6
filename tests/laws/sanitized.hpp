// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// Whether a sanitizer watches, which takes ten times as long: what many sizes or seeds show that few don't is for the other runs.
#pragma once

namespace gradsync::laws {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool sanitized = true;
#else
inline constexpr bool sanitized = false;
#endif

}  // namespace gradsync::laws
