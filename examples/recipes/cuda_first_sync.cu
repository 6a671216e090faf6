// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

// What does 01_first_sync look like where gradients lie on a GPU?
//
//     bazel run //examples:cuda_first_sync       # two ranks on one GPU; without one it says so
//
// The types hold thrust vectors, backward is a kernel, and the group is one of GPU peers. The calls are the same.

#include <cstdio>
#include <vector>

#include "gradsync/adapt/thrust.hpp"
#include "gradsync/comm/cuda_peer.hpp"
#include "gradsync/synchronizer.hpp"

struct param {
  thrust::device_vector<float> value, grad;
};
struct model {  // predicts weight * x + bias
  param weight, bias;
};
struct example {
  float x, y;
};
template <class T>
T* data(thrust::device_vector<T>& v) {
  return thrust::raw_pointer_cast(v.data());
}

__global__ void backward(const float* weight, const float* bias, const example* batch, int size, float* weight_grad, float* bias_grad) {
  *weight_grad = *bias_grad = 0;
  for (int i = 0; i < size; ++i) {
    const float error = *weight * batch[i].x + *bias - batch[i].y;
    *weight_grad += error * batch[i].x / static_cast<float>(size);
    *bias_grad += error / static_cast<float>(size);
  }
}

int main() {
  if (gradsync::device_count() == 0) return std::puts("no CUDA device: nothing to run on"), 0;
  gradsync::cuda_peer_group ranks{2};  // on device 0, both of them; {2, {0, 1}} takes two devices
  ranks.run([](auto& comm) {
    using batch = std::vector<example>;
    thrust::device_vector<example> mine = comm.rank() == 0 ? batch{{1, 5}, {2, 5}, {3, 5}, {4, 5}} : batch{{2, 1}};
    const thrust::device_vector<float> zero(1, 0.0f), six(1, 6.0f);
    model net{{zero, zero}, {six, zero}};
    gradsync::synchronizer sync{net, comm};  // every rank now has rank 0's values

    sync.begin({.weight = mine.size()});
    backward<<<1, 1>>>(data(net.weight.value), data(net.bias.value), data(mine), static_cast<int>(mine.size()), data(net.weight.grad),
                       data(net.bias.grad));
    sync.mark_ready(net.bias);  // on the default stream, where the kernel is; mark_ready(net.bias, stream) names another
    sync.mark_ready(net.weight);
    sync.finish();  // waits for no GPU: what the default stream is given from now on finds the mean

    for (int turn = 0; turn < comm.size(); ++turn, comm.barrier())
      if (turn == comm.rank()) std::printf("rank %d: weight %zu; after finish() %g\n", turn, mine.size(), float(net.bias.grad[0]));
  });
}
