// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// The programs that time training: `scaling`, `overlap` and `step`. Each is one call, so that tests run what the programs run.
///
///     return bench::run_training(bench::training_program::scaling, argc, argv, std::cout, std::cerr);
#pragma once

#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include "examples/bench/table.hpp"
#include "gradsync/sync/options.hpp"

namespace bench {

enum class training_program { scaling, overlap, step };

struct training_options {
  std::string data;       ///< a folder of IDX files; empty: made images
  std::size_t side = 28;  ///< pixels of a row of those
  int ranks = 2;          ///< threads; of `scaling` the most
  std::size_t batch = 128;
  std::size_t examples = 16'384;              ///< of `scaling`: how many each training takes
  std::size_t updates = 60;                   ///< of `overlap`; of `step`, of a sample
  std::size_t micro_steps = 1;                ///< of an update
  std::vector<std::size_t> hidden{512, 512};  ///< outputs of the layers but the last
  int repeats = 3;                            ///< of everything, in turn
  std::string strategy = "native";
  std::size_t bucket_bytes = 25 << 20;
  gradsync::progress progress = gradsync::progress::automatic;
  std::uint64_t seed = 1;
  std::string json, plot;  ///< files; empty: none
};

struct training_command_line {
  training_options chosen;
  std::string text;   ///< help, version or what is wrong, without a line end; empty: measure
  int exit_code = 0;  ///< 2 for a mistake
};

/// Never throws for what the user typed.
training_command_line parse_training(training_program which, int argc, const char* const* argv);

struct training_outcome {
  table rows;
  chart drawn;
};

/// The same model on 1, 2, 4, … ranks: at the same batch over all ranks (strong), and at the same batch for each rank (weak). A row for
/// each training, and one for each of its buckets.
training_outcome measure_scaling(const training_options& chosen);

/// Bucket by bucket, when it was ready, when its collective began and ended, when it was needed, and what of that was exposed: medians over
/// updates, of rank 0, from the begin of the update's last micro-step.
training_outcome measure_overlap(const training_options& chosen);

/// A step with a synchronizer against the same step of each rank alone, in turn.
training_outcome measure_step(const training_options& chosen);

/// All of the program: what `main` returns.
int run_training(training_program which, int argc, const char* const* argv, std::ostream& out, std::ostream& errors);

}  // namespace bench
