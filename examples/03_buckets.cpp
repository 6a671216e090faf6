// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

// Which gradients travel together, where do they lie meanwhile, and what does a replica cost?
//
//     bazel run //examples:03_buckets
//
// Gradients travel in buckets. Backward computes the last layer first, so buckets are filled in reverse model order, and one is closed
// before the parameter that would push it over its cap. A plan depends on the order, types and lengths of the parameters alone: all ranks
// plan alike.

#include <iostream>
#include <span>
#include <string>
#include <vector>

#include "gradsync/gradsync.hpp"

struct param {
  std::vector<float> value, grad;
  explicit param(std::size_t n) : value(n), grad(n) {}
};
struct model {
  param embedding{64000}, hidden{16000}, hidden_bias{100}, out{1000}, out_bias{10};
};

// The same as views: of one arena for the values, and for the gradients of nothing yet.
struct view {
  std::span<float> value, grad;
};
struct arena_model {
  std::vector<float> values = std::vector<float>(81110);
  std::vector<view> layers;
  static constexpr auto parameters = gradsync::members<&arena_model::layers>;

  arena_model() {
    for (std::size_t first = 0; const std::size_t n : {64000u, 16000u, 100u, 1000u, 10u}) {
      layers.push_back({.value = std::span{values}.subspan(first, n), .grad = {}});
      first += n;
    }
  }
};

template <class Model>
void show(const std::string& title, gradsync::layout layout) {
  gradsync::thread_group{2}.run([&](auto& comm) {
    Model net;
    const gradsync::synchronizer sync{net, comm, {.bucket_bytes = 64 << 10, .first_bucket_bytes = 4 << 10, .layout = layout}};
    const gradsync::memory_report memory = sync.memory();
    if (comm.rank() != 0) return;
    std::cout << title << ":\n"
              << sync.describe_plan() << "bytes a replica: values " << memory.values << ", gradients " << memory.gradients << ", buckets "
              << memory.buckets << "\n\n";
  });
}

int main() {
  // A plan needs no ranks. A parameter larger than the cap gets a bucket of its own; with cap 0 each parameter does.
  model net;
  const auto parameters = gradsync::parameters_of(net);
  for (const std::size_t cap : {25u << 20, 64u << 10, 0u}) {
    const gradsync::plan_options options{.bucket_bytes = cap, .first_bucket_bytes = 4 << 10};
    std::cout << "buckets of up to " << cap << " bytes:\n" << describe(make_plan(parameters, options), parameters) << '\n';
  }

  // In place, the default between threads: peers read the gradients where they are. Nothing is copied, and you may assign new ones.
  show<model>("in place", gradsync::layout::in_place);
  // Packed: copied into one stretch a bucket when marked, and back when the mean has come.
  show<model>("packed", gradsync::layout::packed);
  // Adopted: the views are pointed into the buckets, which are all there is of the gradients. Write through them; don't assign others.
  show<arena_model>("adopted", gradsync::layout::adopted);
}

// Next: 04_overlap shows when the buckets travel.
