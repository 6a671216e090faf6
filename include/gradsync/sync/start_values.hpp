// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// Replicas begin alike: every rank takes rank 0's values, in one broadcast for each element type.
///
///     broadcast_values(comm, parameters_of(net));   // blocks; throws as `comm.broadcast` does
#pragma once

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "gradsync/comm/transport.hpp"
#include "gradsync/core/buffer_view.hpp"
#include "gradsync/core/dtype.hpp"
#include "gradsync/model/parameter.hpp"

namespace gradsync {

/// All ranks call it together, with lists of the same counts and types.
template <transport Communicator>
void broadcast_values(Communicator& comm, std::span<const parameter> parameters) {
  for (const dtype type : {dtype::float32, dtype::float64}) {
    std::vector<extent> extents;
    std::size_t count = 0;
    for (const parameter& p : parameters)
      if (p.type == type) extents.push_back({p.value().data, std::exchange(count, count + p.count), p.count});
    if (count > 0) comm.broadcast(buffer_view{type, extents}, 0);
  }
}

}  // namespace gradsync
