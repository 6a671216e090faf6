// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

// What the stand-in is for: faults of synchronisation, which a GPU shows once in a while, show here. Each is planted into a training step
// that is right without it.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "tests/cuda_standin/for_each_index.hpp"

namespace {

constexpr std::size_t n = 300;
constexpr unsigned all_seeds = 300, few_seeds = 100;

enum class fault {
  none,
  no_wait_before,        // communication does not wait for backward
  no_wait_after,         // the optimizer does not wait for communication
  wait_on_other_stream,  // the wait was given to the compute stream
  wait_for_other_event,  // the optimizer waits for the gradient, not for its sum
  recorded_after_wait,   // the event that is waited for is that of the step before
  recorded_before_work,  // the event does not hold the work that it should
  bucket_reused,         // the bucket is filled again while it is being reduced
  bucket_freed_early,    // its stream frees it before the other one has read it
  host_does_not_wait,    // the host reads the result without waiting
  staging_reused,        // the host writes to pinned memory that is still to be copied from
  released_to_nobody,    // freed while work is under way, which cudaFree may wait for or not
};

struct rig {
  cudaStream_t compute = nullptr, communication = nullptr;
  cudaEvent_t written = nullptr, reduced = nullptr, packed = nullptr;
  float *grad = nullptr, *bucket = nullptr, *result = nullptr, *pinned = nullptr;

  rig() {
    for (auto* stream : {&compute, &communication}) cudaStreamCreateWithFlags(stream, cudaStreamNonBlocking);
    for (auto* event : {&written, &reduced, &packed}) cudaEventCreateWithFlags(event, cudaEventDisableTiming);
    for (auto** p : {&grad, &bucket, &result}) cudaMalloc(reinterpret_cast<void**>(p), n * sizeof(float));
    cudaMallocHost(reinterpret_cast<void**>(&pinned), n * sizeof(float));
  }
  ~rig() {
    cudaStreamSynchronize(compute);
    cudaStreamSynchronize(communication);
    for (auto* p : {grad, bucket, result}) cudaFree(p);
    cudaFreeHost(pinned);
    for (auto* stream : {compute, communication}) cudaStreamDestroy(stream);
    for (auto* event : {written, reduced, packed}) cudaEventDestroy(event);
  }
};

// Backward writes a gradient; communication packs it, doubles it and puts it back; the optimizer reads it.
void one_step(rig& r, float value, fault planted) {
  const auto bytes = n * sizeof(float);
  if (planted == fault::recorded_before_work) cudaEventRecord(r.written, r.compute);
  standin::for_each_index(r.compute, n, standin::fill{r.grad, value});
  if (planted == fault::recorded_after_wait) cudaStreamWaitEvent(r.communication, r.written, 0);
  if (planted != fault::recorded_before_work) cudaEventRecord(r.written, r.compute);
  if (planted != fault::no_wait_before && planted != fault::recorded_after_wait)
    cudaStreamWaitEvent(planted == fault::wait_on_other_stream ? r.compute : r.communication, r.written, 0);
  cudaMemcpyAsync(r.bucket, r.grad, bytes, cudaMemcpyDeviceToDevice, r.communication);
  if (planted == fault::bucket_reused) standin::for_each_index(r.compute, n, standin::fill{r.bucket, -1});
  standin::for_each_index(r.communication, n, standin::scale{r.bucket, 2});
  cudaMemcpyAsync(r.grad, r.bucket, bytes, cudaMemcpyDeviceToDevice, r.communication);
  cudaEventRecord(r.reduced, r.communication);
  if (planted != fault::no_wait_after) cudaStreamWaitEvent(r.compute, planted == fault::wait_for_other_event ? r.written : r.reduced, 0);
  cudaMemcpyAsync(r.result, r.grad, bytes, cudaMemcpyDeviceToDevice, r.compute);
}

bool all_are(const float* p, float value) {
  return std::all_of(p, p + n, [value](float x) { return x == value; });
}

bool two_steps_are_right(fault planted) {
  rig r;
  bool right = true;
  for (const float value : {3.0f, 5.0f}) {
    one_step(r, value, planted);
    cudaMemcpyAsync(r.pinned, r.result, n * sizeof(float), cudaMemcpyDeviceToHost, r.compute);
    if (planted != fault::host_does_not_wait) cudaStreamSynchronize(r.compute);
    right = right && all_are(r.pinned, 2 * value);
  }
  return right;
}

// The result goes through memory that a stream allocates and frees.
bool bucket_of_a_stream_is_right(fault planted) {
  rig r;
  float* bucket = nullptr;
  cudaMallocAsync(reinterpret_cast<void**>(&bucket), n * sizeof(float), r.compute);
  standin::for_each_index(r.compute, n, standin::fill{bucket, 7});
  cudaEventRecord(r.written, r.compute);
  cudaStreamWaitEvent(r.communication, r.written, 0);
  cudaMemcpyAsync(r.result, bucket, n * sizeof(float), cudaMemcpyDeviceToDevice, r.communication);
  cudaEventRecord(r.reduced, r.communication);
  if (planted != fault::bucket_freed_early) cudaStreamWaitEvent(r.compute, r.reduced, 0);
  cudaFreeAsync(bucket, r.compute);
  cudaMemcpyAsync(r.pinned, r.result, n * sizeof(float), cudaMemcpyDeviceToHost, r.communication);
  return cudaStreamSynchronize(r.communication) == cudaSuccess && cudaStreamSynchronize(r.compute) == cudaSuccess && all_are(r.pinned, 7);
}

bool staging_is_right(fault planted) {
  rig r;
  std::fill_n(r.pinned, n, 4.0f);
  cudaMemcpyAsync(r.grad, r.pinned, n * sizeof(float), cudaMemcpyHostToDevice, r.compute);
  if (planted != fault::staging_reused) cudaStreamSynchronize(r.compute);
  std::fill_n(r.pinned, n, 0.0f);
  cudaMemcpyAsync(r.pinned, r.grad, n * sizeof(float), cudaMemcpyDeviceToHost, r.compute);
  cudaStreamSynchronize(r.compute);
  return all_are(r.pinned, 4);
}

bool freed_when_done(fault planted) {
  rig r;
  float* bucket = nullptr;
  cudaMalloc(reinterpret_cast<void**>(&bucket), n * sizeof(float));
  standin::for_each_index(r.communication, n, standin::fill{bucket, 1});
  if (planted != fault::released_to_nobody) cudaStreamSynchronize(r.communication);
  cudaFree(bucket);
  return cudaStreamSynchronize(r.communication) == cudaSuccess;
}

using program = bool (*)(fault);

unsigned right_seeds(program run, fault planted, unsigned seeds) {
  unsigned right = 0;
  for (unsigned seed = 0; seed < seeds; ++seed) {
    standin::seed(seed);
    right += run(planted);
    standin::reset();
  }
  return right;
}

}  // namespace

TEST_CASE("right programs are right with every seed") {
  for (const program run : {&two_steps_are_right, &bucket_of_a_stream_is_right, &staging_is_right, &freed_when_done})
    CHECK(right_seeds(run, fault::none, all_seeds) == all_seeds);
}

TEST_CASE("a fault of order shows within a few seeds, and not with all of them") {
  const std::array<std::pair<program, fault>, 11> planted = {{
      {&two_steps_are_right, fault::no_wait_before},
      {&two_steps_are_right, fault::no_wait_after},
      {&two_steps_are_right, fault::wait_on_other_stream},
      {&two_steps_are_right, fault::wait_for_other_event},
      {&two_steps_are_right, fault::recorded_after_wait},
      {&two_steps_are_right, fault::recorded_before_work},
      {&two_steps_are_right, fault::bucket_reused},
      {&two_steps_are_right, fault::host_does_not_wait},
      {&bucket_of_a_stream_is_right, fault::bucket_freed_early},
      {&staging_is_right, fault::staging_reused},
      {&freed_when_done, fault::released_to_nobody},
  }};
  for (const auto& [run, which] : planted) {
    const unsigned right = right_seeds(run, which, few_seeds);
    CAPTURE(static_cast<int>(which));
    MESSAGE("fault ", static_cast<int>(which), ": wrong with ", few_seeds - right, " of ", few_seeds, " seeds");
    CHECK(right < few_seeds);
    CHECK(right > 0);  // or it would be no fault of order
  }
}

TEST_CASE("each seed replays") {
  for (unsigned seed = 0; seed < 40; ++seed) {
    std::vector<std::string> before;
    for (int time = 0; time < 2; ++time) {
      standin::devices(4);
      standin::seed(seed);
      two_steps_are_right(fault::none);
      const auto ran = standin::executed();
      if (time == 1) CHECK(ran == before);
      before = ran;
    }
  }
}
