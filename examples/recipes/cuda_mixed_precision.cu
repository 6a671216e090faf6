// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

// My backward pass makes bfloat16 gradients. What is summed, and in what?
//
//     bazel run //examples:cuda_mixed_precision  # four ranks on one GPU; without one it says so
//
// What the synchronizer sees are float32 gradients, so sums have 24 bits: those of step 0 add up to 1028, and bfloat16 with its 8 bits
// knows only 1024 and 1032. One launch widens a gradient before its mark, one narrows the new value for the next forward pass. Both are on
// the stream of the backward pass, and the optimizer's own copy of the values stays float32.

#include <cstdio>

#include "gradsync/adapt/thrust.hpp"
#include "gradsync/comm/cuda_peer.hpp"
#include "gradsync/cuda/half.hpp"
#include "gradsync/synchronizer.hpp"

using bfloat16 = __nv_bfloat16;
constexpr int length = 1000;

struct param {
  thrust::device_vector<float> value = thrust::device_vector<float>(length), grad = value;
};
struct half_param {  // what forward and backward work with; no part of the model that is kept in step
  thrust::device_vector<bfloat16> value = thrust::device_vector<bfloat16>(length), grad = value;
};
template <class T>
T* data(thrust::device_vector<T>& v) {
  return thrust::raw_pointer_cast(v.data());
}

// The gradient of Σ (value - target)² / 2.
__global__ void backward(const bfloat16* value, float target, bfloat16* grad) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < length) grad[i] = __float2bfloat16(__bfloat162float(value[i]) - target);
}
__global__ void descend(float* value, const float* grad, float rate) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < length) value[i] -= rate * grad[i];
}

int main() {
  if (gradsync::device_count() == 0) return std::puts("no CUDA device: nothing to run on"), 0;
  gradsync::cuda_peer_group{4}.run([](auto& comm) {
    param net;
    half_param narrow;
    gradsync::synchronizer sync{net, comm};
    const float target = comm.rank() == 0 ? -260 : -256;  // the mean over ranks is -257
    for (int step = 0; step < 3; ++step) {
      backward<<<(length + 255) / 256, 256>>>(data(narrow.value), target, data(narrow.grad));
      gradsync::cast(nullptr, data(net.grad), data(narrow.grad), length);  // nullptr: the default stream, as everywhere here
      sync.mark_ready(net);
      sync.finish();
      if (comm.rank() == 0) std::printf("step %d: value %g, mean gradient %g\n", step, float(net.value[0]), float(net.grad[0]));
      descend<<<(length + 255) / 256, 256>>>(data(net.value), data(net.grad), 0.5f);
      gradsync::cast(nullptr, data(narrow.value), data(net.value), length);
    }
  });
}
