// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// Replicas begin alike: every rank takes rank 0's numbers, in one broadcast for each element type and memory that they lie in.
///
///     broadcast_values(comm, parameters_of(net), states_of(net));   // blocks; throws as `comm.broadcast` does
#pragma once

#include <cstddef>
#include <span>
#include <utility>

#include "gradsync/comm/transport.hpp"
#include "gradsync/core/buffer_view.hpp"
#include "gradsync/core/dtype.hpp"
#include "gradsync/core/series.hpp"
#include "gradsync/model/parameter.hpp"
#include "gradsync/model/state.hpp"

namespace gradsync {

/// Values and states. All ranks call it together, with lists of the same lengths and types in the same order.
template <transport Communicator>
void broadcast_values(Communicator& comm, series_view<parameter> parameters, series_view<state_entry> states) {
  for (int t = 0; t <= static_cast<int>(dtype::uint64); ++t) {
    const auto type = static_cast<dtype>(t);
    series<extent> extents;
    std::size_t count = 0;
    const auto add = [&](const memory& m) { extents.push_back({m.data, std::exchange(count, count + m.count), m.count}); };
    for (const parameter& p : parameters)
      if (p.type == type) add(p.value());
    for (const state_entry& s : states)
      if (s.type == type && s.space == Communicator::space) add(s.value());
    if (!extents.empty()) comm.broadcast(buffer_view{type, extents}, 0);
  }
  if constexpr (Communicator::space != memory_space::host)
    for (const state_entry& s : states)
      if (s.space == memory_space::host)
        dispatch(s.type, [&]<class T>(std::type_identity<T>) {
          comm.broadcast(std::span(reinterpret_cast<T*>(s.value().data), s.value().count), 0);
        });
}

/// `usage_error` while work of the device's is being captured in a graph, for which `call` would have to wait.
template <transport Communicator>
void refuse_capture(const Communicator& comm, const char* call) {
  if constexpr (requires { comm.refuse_capture(call); }) comm.refuse_capture(call);
}

}  // namespace gradsync
