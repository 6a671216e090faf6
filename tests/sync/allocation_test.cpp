// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

// A step costs no memory: whoever has made one update allocates nothing in those that follow, in no mode, on no thread.
#include <doctest/doctest.h>

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>
#include <span>
#include <string>
#include <vector>

#include "gradsync/gradsync.hpp"

namespace {

std::atomic<long> allocations{0};

void* counted(std::size_t size, std::size_t alignment) {
  ++allocations;
  const std::size_t whole = (size + alignment - 1) / alignment * alignment;  // what aligned_alloc asks for
  if (void* memory = std::aligned_alloc(alignment, whole)) return memory;
  throw std::bad_alloc();
}

}  // namespace

void* operator new(std::size_t size) { return counted(size, __STDCPP_DEFAULT_NEW_ALIGNMENT__); }
void* operator new(std::size_t size, std::align_val_t alignment) { return counted(size, static_cast<std::size_t>(alignment)); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }

namespace {

using namespace gradsync;
using communicator = thread_communicator;

struct owning {
  std::vector<float> value, grad;
};
struct viewing {
  std::vector<float> value;
  std::span<float> grad;
};

template <class Parameter>
struct net {
  std::vector<Parameter> layers;
};

// Of lengths that are no whole number of cache lines, so that slots and gradients lie differently.
template <class Parameter>
net<Parameter> made() {
  net<Parameter> all;
  for (std::size_t n : {700, 1, 300, 64, 1300}) {
    all.layers.push_back({std::vector<float>(n), {}});
    if constexpr (std::is_same_v<Parameter, owning>) all.layers.back().grad.resize(n);
  }
  return all;
}

template <class Parameter>
void update(synchronizer<net<Parameter>, communicator>& sync, net<Parameter>& model, int micro_steps) {
  for (int m = 1; m <= micro_steps; ++m) {
    sync.begin({.weight = 3 * m, .gradient = gradient_kind::sum, .micro_step = m == micro_steps ? micro_step::last : micro_step::more});
    for (std::size_t l = model.layers.size(); l-- > 1;) {
      for (float& g : model.layers[l].grad) g = static_cast<float>(m);
      sync.mark_ready(model.layers[l]);
    }
    sync.mark_all_ready();
    sync.finish();
  }
}

constexpr int warm = 1, counted_updates = 6;

// Allocations of all ranks and their threads in the updates after the first `first` ones.
template <class Parameter = owning, class Strategy = native>
long allocations_of(int ranks, const synchronizer_options& options, int micro_steps = 1, const Strategy& strategy = {}, int first = warm) {
  long seen = -1;
  thread_group(ranks).run([&](communicator& comm) {
    net<Parameter> model = made<Parameter>();
    const collective<communicator> sum{comm, strategy};
    synchronizer<net<Parameter>, communicator> sync(model, sum, options);
    for (int i = 0; i < first; ++i) update(sync, model, micro_steps);
    comm.barrier();
    const long before = allocations.load();
    comm.barrier();
    for (int i = 0; i < counted_updates; ++i) update(sync, model, micro_steps);
    comm.barrier();
    if (comm.rank() == 0) seen = allocations.load() - before;
    comm.barrier();
  });
  return seen;
}

constexpr std::size_t buckets_of_two = 4096;

}  // namespace

TEST_CASE("this test would see an allocation") {
  const long before = allocations.load();
  CHECK(std::vector<float>(100).size() == 100);
  CHECK(allocations.load() > before);
}

TEST_CASE("after the first update no call allocates, whoever drives communication and whatever the layout is") {
  for (const int ranks : {1, 2, 3})
    for (const progress how : {progress::at_marks, progress::thread})
      for (const layout where : {layout::in_place, layout::packed}) {
        CAPTURE(ranks);
        CAPTURE(static_cast<int>(how));
        CAPTURE(name_of(where));
        CHECK(allocations_of(ranks, {.bucket_bytes = buckets_of_two, .layout = where, .progress = how}) == 0);
      }
}

TEST_CASE("gradients that were adopted cost no allocation either") {
  for (const progress how : {progress::at_marks, progress::thread})
    CHECK(allocations_of<viewing>(2, {.bucket_bytes = buckets_of_two, .layout = layout::adopted, .progress = how}) == 0);
}

TEST_CASE("micro-steps find the partial sums of the first update") {
  for (const accumulation_mode mode : {accumulation_mode::tree, accumulation_mode::plain})
    for (const int ranks : {1, 2}) CHECK(allocations_of(ranks, {.bucket_bytes = buckets_of_two, .accumulation = mode}, 5) == 0);
}

TEST_CASE("strategies of rounds do not allocate; what scratch they need they have after one collective in each slot") {
  const synchronizer_options options{.bucket_bytes = buckets_of_two};
  CHECK(allocations_of(3, options, 1, ring{}) == 0);
  CHECK(allocations_of(4, options, 1, tree{}) == 0);
  CHECK(allocations_of(4, options, 1, halving_doubling{}) == 0);
  CHECK(allocations_of(4, options, 1, recursive_doubling{}, 4) == 0);
  CHECK(allocations_of(4, options, 1, direct{}, 4) == 0);
}
