// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// The rows of `measure` as nccl-tests prints them, and what else was asked for.
#pragma once

#include "examples/bench/measure.hpp"
#include "examples/bench/table.hpp"

namespace bench {

/// Labels of few samples, beside one of many, are left out.
table table_of(const measured& all, const options& chosen);

chart chart_of(const measured& all, const options& chosen);

}  // namespace bench
