// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

#include <stdexcept>

#include "examples/fashion/processes.hpp"
#include "gradsync/comm/launch.hpp"

namespace fashion {

std::optional<training_result> train_over_processes(const options&, report&) {
  const gradsync::launch me = gradsync::find_launch();
  if (me.size > 1) throw std::runtime_error(describe(me) + ": but this program was built without MPI; start it alone, with --ranks");
  return std::nullopt;
}

}  // namespace fashion
