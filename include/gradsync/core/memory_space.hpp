// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// Whose addresses elements have: those of the host, or of a CUDA device, which the host must not follow. A parameter says where it lies
/// (`parameter::space`), a communicator what its ranks reach (`Communicator::space`).
#pragma once

namespace gradsync {

enum class memory_space : unsigned char { host, cuda };

constexpr const char* name_of(memory_space space) { return space == memory_space::host ? "host" : "CUDA device"; }

}  // namespace gradsync
