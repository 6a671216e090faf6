// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

// How do I train on GPUs?
//
//     bazel run //examples:11_cuda_training      # on all that there are; without one it says so
//
// As on threads: only the communicator is another. The model's elements lie in device memory, backward is kernels on a stream, and a mark
// names that stream: what it has been given so far makes the gradient. Nothing here waits for a GPU but the print of the error.

#include <thrust/inner_product.h>

#include <cstdio>
#include <vector>

#include "gradsync/adapt/thrust.hpp"
#include "gradsync/comm/nccl.hpp"
#include "gradsync/synchronizer.hpp"

constexpr int waves = 32, examples = 4096, threads = 256;

struct param {
  thrust::device_vector<float> value, grad;
  explicit param(std::size_t n) : value(n), grad(n) {}
};
struct sum_of_waves {  // y(x) = bias + Σ weight[k] · sin((k + 1) x)
  param weight{waves}, bias{1};
};
float* data(thrust::device_vector<float>& v) { return thrust::raw_pointer_cast(v.data()); }

__global__ void forward(const float* x, const float* y, float* error, int batch, const float* weight, const float* bias) {
  const int e = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (e >= batch) return;
  float sum = *bias;
  for (int k = 0; k < waves; ++k) sum += weight[k] * sinf(static_cast<float>(k + 1) * x[e]);
  error[e] = sum - y[e];
}
__global__ void backward(const float* x, const float* error, int batch, float* grad, bool of_bias) {  // a thread a gradient
  const int k = static_cast<int>(threadIdx.x);
  float sum = 0;
  for (int e = 0; e < batch; ++e) sum += error[e] * (of_bias ? 1 : sinf(static_cast<float>(k + 1) * x[e]));
  grad[k] = sum / static_cast<float>(batch);
}
__global__ void descend(float* value, const float* grad) { value[threadIdx.x] -= grad[threadIdx.x]; }

int main() {
  if (gradsync::device_count() == 0) return std::puts("no CUDA device: nothing to run on"), 0;
  gradsync::nccl_group{}.run([](auto& comm) {
    sum_of_waves net;
    std::vector<float> xs, ys;  // this rank's share of a square wave
    for (int e = comm.rank(); e < examples; e += comm.size()) {
      xs.push_back(6.2831853f * (static_cast<float>(e) + 0.5f) / examples);
      ys.push_back(2 * e < examples ? 1 : -1);
    }
    thrust::device_vector<float> x = xs, y = ys, error(xs.size());
    const int batch = static_cast<int>(xs.size());

    cudaStream_t compute = nullptr;
    cudaStreamCreateWithFlags(&compute, cudaStreamNonBlocking);
    gradsync::synchronizer sync{net, comm};
    for (int step = 0; step <= 20; ++step) {
      forward<<<(batch + threads - 1) / threads, threads, 0, compute>>>(data(x), data(y), data(error), batch, data(net.weight.value),
                                                                        data(net.bias.value));
      sync.begin({.weight = batch});
      backward<<<1, 1, 0, compute>>>(data(x), data(error), batch, data(net.bias.grad), true);
      sync.mark_ready(net.bias, compute);  // on its way while the kernel below runs, if its bucket is full
      backward<<<1, waves, 0, compute>>>(data(x), data(error), batch, data(net.weight.grad), false);
      sync.mark_ready(net.weight, compute);
      sync.finish(compute);  // puts `compute` behind the last bucket, and returns
      for (param* p : {&net.weight, &net.bias})
        descend<<<1, static_cast<unsigned>(p->value.size()), 0, compute>>>(data(p->value), data(p->grad));
      if (step % 10 > 0) continue;
      cudaStreamSynchronize(compute);
      const float squares = comm.all_reduce(thrust::inner_product(error.begin(), error.end(), error.begin(), 0.0f));
      if (comm.rank() == 0) std::printf("step %2d: mean squared error %.4f\n", step, static_cast<double>(squares) / examples);
    }
    cudaStreamDestroy(compute);
  });
}
// Next: 12_sub_groups shows data-parallel groups inside a larger world.
