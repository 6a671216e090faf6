// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

// The stand-in runtime knows no kernels but the library's: vectors are copied from the host, and not filled or copied on the device.
#include "gradsync/adapt/thrust.hpp"

#include <doctest/doctest.h>
#include <thrust/host_vector.h>

#include <cstddef>
#include <string>
#include <vector>

#include "gradsync/comm/cuda_peer.hpp"
#include "gradsync/comm/threads.hpp"
#include "gradsync/model/describe.hpp"
#include "gradsync/synchronizer.hpp"

using namespace gradsync;

namespace {

template <class T>
thrust::device_vector<T> copied(const std::vector<T>& values) {
  return thrust::device_vector<T>(values.begin(), values.end());
}
template <class T>
std::vector<T> values_of(thrust::device_vector<T>& all) {
  std::vector<T> values(all.size());
  cudaDeviceSynchronize();
  cudaMemcpy(values.data(), thrust::raw_pointer_cast(all.data()), values.size() * sizeof(T), cudaMemcpyDeviceToHost);
  return values;
}

template <class T>
struct param {
  thrust::device_vector<T> value, grad;
};
struct model {
  param<float> weight;
  param<double> bias;
};
model make(int rank) {
  const float r = static_cast<float>(rank);
  return {{copied<float>({1 + r, 2, 3}), copied<float>({r, 10 * r, 4})}, {copied<double>({5 + r}), copied<double>({r})}};
}

struct on_host {
  struct layer {
    thrust::host_vector<float> value, grad;
  } weight;
};

}  // namespace

TEST_CASE("a device vector is a parameter in a device's memory, of its elements") {
  using access = parameter_access<thrust::device_vector<float>>;
  thrust::device_vector<float> three = copied<float>({1, 2, 3});
  static_assert(access::space == memory_space::cuda);
  CHECK(access::value(three).data() == thrust::raw_pointer_cast(three.data()));
  CHECK(access::value(three).size() == 3);

  model net = make(0);
  const std::string said = describe(net);
  CHECK_MESSAGE((said.find("weight") != said.npos && said.find("bias") != said.npos), said);
}

TEST_CASE("ranks whose gradients are device vectors have their mean, and rank 0's values") {
  cuda_peer_group(2, {0}).run([](auto& comm) {
    model net = make(comm.rank());
    synchronizer sync{net, comm};
    CHECK(values_of(net.weight.value) == std::vector<float>{1, 2, 3});
    CHECK(values_of(net.bias.value) == std::vector<double>{5});
    for (int update = 1; update <= 2; ++update) {
      sync.begin({.weight = comm.rank() == 0 ? 1.0 : 3.0});
      sync.mark_ready(net.bias);
      sync.mark_ready(net.weight);
      sync.finish();
      if (update == 1) CHECK(values_of(net.weight.grad) == std::vector<float>{0.75f, 7.5f, 4});
      CHECK(values_of(net.bias.grad) == std::vector<double>{0.75});
    }
  });
}

TEST_CASE("a host vector needs nothing") {
  thread_group(2).run([](auto& comm) {
    on_host net;
    net.weight.value.resize(3);
    net.weight.grad = std::vector<float>(3, static_cast<float>(comm.rank()));
    synchronizer sync{net, comm};
    sync.mark_ready(net.weight);
    sync.finish();
    CHECK(net.weight.grad[2] == 0.5f);
  });
}
