// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

// The rules that the stand-in keeps, one test case each. RULES.md says where CUDA's manual states them.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "tests/cuda_standin/for_each_index.hpp"

namespace {

using standin::fill;
using standin::for_each_index;
using standin::order;
using standin::pace;

constexpr std::size_t n = 100, bytes = n * sizeof(float);

struct clean {
  clean() {
    standin::reset();
    standin::devices(4);
    standin::seed(0, order::any, pace::host_ahead);
    cudaSetDevice(0);
  }
  ~clean() { standin::reset(); }
};

float* on_device(int device = 0) {
  cudaSetDevice(device);
  float* p = nullptr;
  cudaMalloc(reinterpret_cast<void**>(&p), bytes);
  return p;
}

float* in_pinned() {
  float* p = nullptr;
  cudaMallocHost(reinterpret_cast<void**>(&p), bytes);
  return p;
}

cudaStream_t make_stream(unsigned flags = cudaStreamNonBlocking) {
  cudaStream_t s = nullptr;
  cudaStreamCreateWithFlags(&s, flags);
  return s;
}

cudaEvent_t make_event(unsigned flags = cudaEventDisableTiming) {
  cudaEvent_t e = nullptr;
  cudaEventCreateWithFlags(&e, flags);
  return e;
}

std::vector<float> values_of(const float* p) {
  std::vector<float> host(n);
  cudaMemcpy(host.data(), p, bytes, cudaMemcpyDeviceToHost);
  return host;
}

bool all_are(const std::vector<float>& values, float x) {
  return std::all_of(values.begin(), values.end(), [x](float v) { return v == x; });
}

// With how many of 200 seeds the work of `first`, given to its stream before that of `second`, also runs before it.
unsigned times_in_order(cudaStream_t first, cudaStream_t second) {
  float* p = on_device();
  unsigned in_order = 0;
  for (unsigned seed = 0; seed < 200; ++seed) {
    standin::seed(seed);
    for_each_index(first, n, fill{p, 1});
    for_each_index(second, n, fill{p, 2});
    cudaDeviceSynchronize();
    in_order += all_are(values_of(p), 2);
  }
  cudaFree(p);
  return in_order;
}

}  // namespace

TEST_CASE_FIXTURE(clean, "streams have no order between them, work of one stream has") {
  const auto a = make_stream(), b = make_stream();
  CHECK(times_in_order(a, a) == 200);
  CHECK(times_in_order(a, b) > 0);
  CHECK(times_in_order(a, b) < 200);
  cudaStreamDestroy(a);
  cudaStreamDestroy(b);
}

TEST_CASE_FIXTURE(clean, "the legacy stream has an order with blocking streams, and with no others") {
  const auto blocking = make_stream(cudaStreamDefault), other = make_stream(cudaStreamDefault), free = make_stream();
  CHECK(times_in_order(nullptr, blocking) == 200);
  CHECK(times_in_order(blocking, cudaStreamLegacy) == 200);
  CHECK(times_in_order(cudaStreamPerThread, cudaStreamLegacy) == 200);
  CHECK(times_in_order(nullptr, cudaStreamPerThread) == 200);
  CHECK(times_in_order(free, nullptr) < 200);
  CHECK(times_in_order(nullptr, free) < 200);
  CHECK(times_in_order(blocking, other) < 200);
  CHECK(times_in_order(cudaStreamPerThread, blocking) < 200);
  for (auto s : {blocking, other, free}) cudaStreamDestroy(s);
}

TEST_CASE_FIXTURE(clean, "each thread has a stream of its own") {
  cudaStream_t here = cudaStreamPerThread;
  unsigned long long mine = 0, theirs = 0;
  CHECK(cudaStreamGetId(here, &mine) == cudaSuccess);
  std::thread([&] { cudaStreamGetId(cudaStreamPerThread, &theirs); }).join();
  CHECK(mine != theirs);
}

TEST_CASE_FIXTURE(clean, "nothing runs before somebody waits if the host is ahead, and all of it if the device is") {
  const auto s = make_stream();
  float* p = in_pinned();
  for (const auto at : {pace::host_ahead, pace::device_ahead}) {
    standin::seed(1, order::any, at);
    std::fill_n(p, n, 0.0f);
    for_each_index(s, n, fill{p, 1});
    CHECK(p[0] == (at == pace::host_ahead ? 0.0f : 1.0f));
    CHECK(cudaStreamSynchronize(s) == cudaSuccess);
    CHECK(p[n - 1] == 1);
  }
  cudaStreamDestroy(s);
}

TEST_CASE_FIXTURE(clean, "whoever asks in a loop sees the end") {
  const auto s = make_stream();
  const auto e = make_event();
  float* p = on_device();
  for (unsigned seed = 0; seed < 40; ++seed) {
    standin::seed(seed);
    for_each_index(s, n, fill{p, 1});
    cudaEventRecord(e, s);
    while (cudaEventQuery(e) == cudaErrorNotReady) {
    }
    CHECK(cudaEventQuery(e) == cudaSuccess);
    CHECK(cudaStreamQuery(s) == cudaSuccess);
  }
  cudaGetLastError();
  cudaStreamDestroy(s);
  cudaEventDestroy(e);
}

TEST_CASE_FIXTURE(clean, "an event stands for the work before its newest record, and for none before the first") {
  const auto a = make_stream(), b = make_stream();
  const auto e = make_event();
  float* p = in_pinned();
  CHECK(cudaEventQuery(e) == cudaSuccess);
  CHECK(cudaStreamWaitEvent(b, e, 0) == cudaSuccess);
  CHECK(cudaStreamSynchronize(b) == cudaSuccess);
  for_each_index(a, n, fill{p, 1});
  cudaEventRecord(e, a);
  for_each_index(a, n, fill{p, 2});
  CHECK(cudaEventSynchronize(e) == cudaSuccess);
  CHECK(p[0] == 1);
  cudaStreamSynchronize(a);
  CHECK(p[0] == 2);
  for (auto s : {a, b}) cudaStreamDestroy(s);
  cudaEventDestroy(e);
}

TEST_CASE_FIXTURE(clean, "a wait means the record before it: one that comes later changes nothing") {
  const auto a = make_stream(), b = make_stream();
  const auto e = make_event();
  float *p = in_pinned(), *q = in_pinned();
  unsigned overtook = 0;
  for (unsigned seed = 0; seed < 40; ++seed) {
    standin::seed(seed);
    std::fill_n(p, n, 0.0f);
    std::fill_n(q, n, 0.0f);
    cudaEventRecord(e, a);
    cudaStreamWaitEvent(b, e, 0);
    for_each_index(a, n, fill{p, 1});
    cudaEventRecord(e, a);
    for_each_index(b, n, fill{q, 1});
    cudaStreamSynchronize(b);
    overtook += q[0] == 1 && p[0] == 0;
    cudaStreamSynchronize(a);
  }
  CHECK(overtook > 0);
  for (auto s : {a, b}) cudaStreamDestroy(s);
  cudaEventDestroy(e);
}

TEST_CASE_FIXTURE(clean, "events tell the time between them, if they were made to") {
  const auto s = make_stream();
  const auto from = make_event(cudaEventDefault), to = make_event(cudaEventDefault), silent = make_event();
  float* p = on_device();
  float milliseconds = 0;
  CHECK(cudaEventElapsedTime(&milliseconds, from, to) == cudaErrorInvalidResourceHandle);
  cudaEventRecord(from, s);
  for_each_index(s, n, fill{p, 1});
  cudaEventRecord(to, s);
  cudaEventRecord(silent, s);
  CHECK(cudaEventElapsedTime(&milliseconds, from, to) == cudaErrorNotReady);
  cudaStreamSynchronize(s);
  CHECK(cudaEventElapsedTime(&milliseconds, from, to) == cudaSuccess);
  CHECK(milliseconds == 2);
  CHECK(cudaEventElapsedTime(&milliseconds, from, silent) == cudaErrorInvalidResourceHandle);
  cudaStreamDestroy(s);
  for (auto e : {from, to, silent}) cudaEventDestroy(e);
}

TEST_CASE_FIXTURE(clean, "the work of a destroyed stream still runs") {
  const auto s = make_stream();
  float* p = in_pinned();
  for_each_index(s, n, fill{p, 3});
  CHECK(cudaStreamDestroy(s) == cudaSuccess);
  CHECK(cudaStreamSynchronize(s) == cudaErrorInvalidResourceHandle);
  CHECK(cudaDeviceSynchronize() == cudaSuccess);
  CHECK(p[0] == 3);
}

TEST_CASE_FIXTURE(clean, "host functions run in their stream's order, and may not call CUDA") {
  const auto s = make_stream();
  float* p = in_pinned();
  struct seen {
    float* p;
    float value;
    cudaError_t error;
  } what{p, 0, cudaSuccess};
  for_each_index(s, n, fill{p, 5});
  cudaLaunchHostFunc(
      s,
      [](void* argument) {
        auto& w = *static_cast<seen*>(argument);
        w.value = w.p[0];
        w.error = cudaDeviceSynchronize();
      },
      &what);
  for_each_index(s, n, fill{p, 6});
  CHECK(cudaStreamSynchronize(s) == cudaSuccess);
  CHECK(what.value == 5);
  CHECK(what.error == cudaErrorNotPermitted);
  cudaGetLastError();
  cudaStreamDestroy(s);
}

TEST_CASE_FIXTURE(clean, "two host threads may wait at once") {
  float* p = in_pinned();
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < 2; ++t)
    threads.emplace_back([=] {
      const auto s = make_stream();
      for (int i = 0; i < 50; ++i) {
        for_each_index(s, n / 2, fill{p + t * n / 2, static_cast<float>(i)});
        if (cudaStreamSynchronize(s) != cudaSuccess || p[t * n / 2] != static_cast<float>(i)) p[n - 1] = NAN;
      }
      cudaStreamDestroy(s);
    });
  for (auto& t : threads) t.join();
  CHECK(all_are({p, p + n}, 49));
}

TEST_CASE_FIXTURE(clean, "a wait that can't end is given up, and the device with it") {
  standin::patience(std::chrono::milliseconds(20));
  const auto a = make_stream();
  // Only another library's work could hang; a host function that waits for later work of its own host does the same.
  struct gate {
    std::mutex m;
  } g;
  g.m.lock();
  std::thread other([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    g.m.unlock();
  });
  cudaLaunchHostFunc(
      a, [](void* argument) { static_cast<gate*>(argument)->m.lock(); }, &g);
  std::thread runs([&] { cudaStreamSynchronize(a); });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  CHECK(cudaStreamSynchronize(a) == cudaErrorLaunchTimeout);
  other.join();
  runs.join();
  cudaStreamDestroy(a);
  standin::patience(std::chrono::seconds(20));
}

// --- memory
// -------------------------------------------------------------------------------------------------------------------------------

TEST_CASE_FIXTURE(clean, "fresh memory holds NaN") {
  for (const float x : values_of(on_device())) CHECK(std::isnan(x));
  CHECK(std::isnan(in_pinned()[0]));
}

TEST_CASE_FIXTURE(clean, "the host can't read device memory, and the message says whose it is") {
  float* p = on_device(2);
  volatile float read = 0;
  const auto said = standin::host_fault([&] { read = p[3]; });
  CHECK(said.find("byte 12 of a block of 400 bytes on device 2") != std::string::npos);
  CHECK(standin::host_fault([&] { p[0] = 1; }) != "");
  cudaDeviceSynchronize();
  CHECK(standin::host_fault([&] { read = p[0]; }) != "");
  CHECK(standin::host_fault([] {}) == "");
}

TEST_CASE_FIXTURE(clean, "freed memory can't be used, by the host, a copy or a kernel") {
  float *p = on_device(), *q = on_device();
  CHECK(cudaFree(p) == cudaSuccess);
  volatile float read = 0;
  CHECK(standin::host_fault([&] { read = p[0]; }).find("freed") != std::string::npos);
  CHECK(cudaMemcpy(q, p, bytes, cudaMemcpyDeviceToDevice) == cudaErrorInvalidValue);
  CHECK(cudaFree(p) == cudaErrorInvalidValue);
  CHECK(cudaGetLastError() == cudaErrorInvalidValue);
  for_each_index(nullptr, n, fill{p, 1});
  CHECK(cudaDeviceSynchronize() == cudaErrorIllegalAddress);
}

TEST_CASE_FIXTURE(clean, "an illegal address sticks to its device, until that is reset") {
  float* other = on_device(1);
  float* p = on_device();
  for_each_index(nullptr, n, fill{p + (1 << 20), 1});
  CHECK(cudaDeviceSynchronize() == cudaErrorIllegalAddress);
  CHECK(cudaGetLastError() == cudaErrorIllegalAddress);
  CHECK(cudaFree(p) == cudaErrorIllegalAddress);
  cudaSetDevice(1);
  CHECK(cudaMemset(other, 0, bytes) == cudaSuccess);
  cudaSetDevice(0);
  CHECK(cudaDeviceSynchronize() == cudaErrorIllegalAddress);
  standin::reset();
  CHECK(cudaDeviceSynchronize() == cudaSuccess);
}

TEST_CASE_FIXTURE(clean, "writing past the end of a block shows, at once or when it is freed") {
  float* p = on_device();
  for_each_index(nullptr, n + 1, fill{p, 1});
  CHECK(cudaDeviceSynchronize() == cudaSuccess);
  CHECK(cudaFree(p) == cudaErrorIllegalAddress);
  standin::reset();
  p = on_device();
  for_each_index(nullptr, n + 64, fill{p, 1});
  CHECK(cudaDeviceSynchronize() == cudaErrorIllegalAddress);
}

TEST_CASE_FIXTURE(clean, "a kernel reads memory of another device only with access, a copy always") {
  float *p = on_device(1), *q = on_device(0);
  CHECK(cudaMemcpyPeerAsync(q, 0, p, 1, bytes, nullptr) == cudaSuccess);
  CHECK(cudaMemcpyAsync(q, p, bytes, cudaMemcpyDefault, nullptr) == cudaSuccess);
  CHECK(cudaDeviceSynchronize() == cudaSuccess);
  int can = 0;
  cudaDeviceCanAccessPeer(&can, 0, 1);
  CHECK(can == 1);
  CHECK(cudaDeviceEnablePeerAccess(1, 0) == cudaSuccess);
  CHECK(cudaDeviceEnablePeerAccess(1, 0) == cudaErrorPeerAccessAlreadyEnabled);
  cudaGetLastError();
  for_each_index(nullptr, n, fill{p, 8});
  CHECK(cudaDeviceSynchronize() == cudaSuccess);
  CHECK(all_are(values_of(p), 8));
  CHECK(cudaDeviceDisablePeerAccess(1) == cudaSuccess);
  for_each_index(nullptr, n, fill{p, 9});
  CHECK(cudaDeviceSynchronize() == cudaErrorIllegalAddress);
}

TEST_CASE_FIXTURE(clean, "memory of a stream is there once the stream has come to it, and until it frees it") {
  const auto a = make_stream(), b = make_stream();
  unsigned failed = 0;
  for (unsigned seed = 0; seed < 40; ++seed) {
    standin::seed(seed);
    float* p = nullptr;
    cudaMallocAsync(reinterpret_cast<void**>(&p), bytes, a);
    for_each_index(b, n, fill{p, 1});  // without an event between them
    failed += cudaDeviceSynchronize() != cudaSuccess;
    standin::reset();
  }
  CHECK(failed > 0);
  CHECK(failed < 40);
  for (auto s : {a, b}) cudaStreamDestroy(s);
}

TEST_CASE_FIXTURE(clean, "a device runs out of memory") {
  void* p = nullptr;
  CHECK(cudaMalloc(&p, std::size_t{1} << 40) == cudaErrorMemoryAllocation);
  CHECK(p == nullptr);
  CHECK(cudaPeekAtLastError() == cudaErrorMemoryAllocation);
  CHECK(cudaGetLastError() == cudaErrorMemoryAllocation);
  CHECK(cudaGetLastError() == cudaSuccess);
}

TEST_CASE_FIXTURE(clean, "pointers are known by kind and device") {
  float *device = on_device(3), *pinned = in_pinned(), host = 0;
  std::vector<float> registered(n);
  cudaPointerAttributes about;
  CHECK(cudaPointerGetAttributes(&about, device + 1) == cudaSuccess);
  CHECK(about.type == cudaMemoryTypeDevice);
  CHECK(about.device == 3);
  CHECK(cudaPointerGetAttributes(&about, pinned) == cudaSuccess);
  CHECK(about.type == cudaMemoryTypeHost);
  CHECK(cudaPointerGetAttributes(&about, &host) == cudaSuccess);
  CHECK(about.type == cudaMemoryTypeUnregistered);
  CHECK(cudaHostRegister(registered.data(), bytes, 0) == cudaSuccess);
  CHECK(cudaHostRegister(registered.data(), bytes, 0) == cudaErrorHostMemoryAlreadyRegistered);
  CHECK(cudaPointerGetAttributes(&about, &registered[5]) == cudaSuccess);
  CHECK(about.type == cudaMemoryTypeHost);
  CHECK(cudaHostUnregister(registered.data()) == cudaSuccess);
  CHECK(cudaHostUnregister(registered.data()) == cudaErrorHostMemoryNotRegistered);
  cudaGetLastError();
}

// --- copies
// -------------------------------------------------------------------------------------------------------------------------------

TEST_CASE_FIXTURE(clean, "a copy from pinned memory reads it when its stream comes to it; from pageable memory it may read it before") {
  const auto s = make_stream();
  float* p = on_device();
  std::vector<float> pageable(n);
  float* pinned = in_pinned();
  unsigned early[2] = {};
  for (unsigned seed = 0; seed < 60; ++seed)
    for (float* from : {pinned, pageable.data()}) {
      standin::seed(seed, order::any, pace::host_ahead);
      std::fill_n(from, n, 1.0f);
      cudaMemcpyAsync(p, from, bytes, cudaMemcpyHostToDevice, s);
      std::fill_n(from, n, 2.0f);
      cudaStreamSynchronize(s);
      early[from == pinned ? 0 : 1] += all_are(values_of(p), 1);
    }
  CHECK(early[0] == 0);
  CHECK(early[1] > 0);
  CHECK(early[1] < 60);
  cudaStreamDestroy(s);
}

TEST_CASE_FIXTURE(clean, "a copy to pageable memory is done when the call returns, to pinned memory it is not") {
  const auto s = make_stream();
  float *p = on_device(), *pinned = in_pinned();
  std::vector<float> pageable(n);
  for_each_index(s, n, fill{p, 4});
  std::fill_n(pinned, n, 0.0f);
  cudaMemcpyAsync(pinned, p, bytes, cudaMemcpyDeviceToHost, s);
  CHECK(pinned[0] == 0);
  cudaMemcpyAsync(pageable.data(), p, bytes, cudaMemcpyDeviceToHost, s);
  CHECK(all_are(pageable, 4));
  CHECK(pinned[0] == 4);
  cudaStreamDestroy(s);
}

TEST_CASE_FIXTURE(clean, "a copy that is at odds with its direction or its blocks is refused") {
  float *p = on_device(), *q = on_device();
  std::vector<float> host(n);
  CHECK(cudaMemcpy(p, q, bytes, cudaMemcpyHostToDevice) == cudaErrorInvalidValue);
  CHECK(cudaMemcpy(p, host.data(), bytes, cudaMemcpyDeviceToDevice) == cudaErrorInvalidValue);
  CHECK(cudaMemcpy(p, host.data(), bytes + 1, cudaMemcpyHostToDevice) == cudaErrorInvalidValue);
  CHECK(cudaMemcpy(host.data(), p + 1, bytes, cudaMemcpyDeviceToHost) == cudaErrorInvalidValue);
  CHECK(cudaMemcpyPeerAsync(p, 1, q, 0, bytes, nullptr) == cudaErrorInvalidValue);
  CHECK(cudaMemset(host.data(), 0, bytes) == cudaErrorInvalidValue);
  CHECK(cudaMemcpy(p, host.data(), bytes, cudaMemcpyDefault) == cudaSuccess);
  cudaGetLastError();
}

// --- launches, devices, errors
// --------------------------------------------------------------------------------------------------------------

namespace {
__global__ void unknown_kernel() {}
}  // namespace

TEST_CASE_FIXTURE(clean, "a launch is refused on another device's stream, with an impossible grid, and without a twin") {
  const auto s = make_stream();
  float* p = on_device(1);
  for_each_index(s, n, fill{p, 1});
  CHECK(cudaGetLastError() == cudaErrorInvalidResourceHandle);
  for_each_index(nullptr, 0, fill{p, 1});
  CHECK(cudaGetLastError() == cudaErrorInvalidConfiguration);
  unknown_kernel<<<1, 1>>>();
  CHECK(cudaGetLastError() == cudaErrorInvalidDeviceFunction);
  CHECK(cudaMemcpyAsync(p, p, bytes, cudaMemcpyDeviceToDevice, s) == cudaSuccess);
  const auto e = make_event();
  CHECK(cudaEventRecord(e, s) == cudaErrorInvalidResourceHandle);
  CHECK(cudaStreamWaitEvent(s, e, 0) == cudaSuccess);
  CHECK(cudaStreamSynchronize(s) == cudaSuccess);
  cudaGetLastError();
  cudaStreamDestroy(s);
  cudaEventDestroy(e);
}

TEST_CASE_FIXTURE(clean, "each thread has a current device, at first 0, and a last error of its own") {
  cudaSetDevice(3);
  CHECK(cudaSetDevice(4) == cudaErrorInvalidDevice);
  std::thread([] {
    int device = -1;
    CHECK(cudaGetDevice(&device) == cudaSuccess);
    CHECK(device == 0);
    CHECK(cudaGetLastError() == cudaSuccess);
  }).join();
  CHECK(cudaGetLastError() == cudaErrorInvalidDevice);
}

TEST_CASE_FIXTURE(clean, "devices have different names, identities and places") {
  for (int device = 0; device < 4; ++device) {
    cudaDeviceProp about;
    CHECK(cudaGetDeviceProperties(&about, device) == cudaSuccess);
    CHECK(about.pciBusID == device + 1);
    char place[32];
    int found = -1;
    CHECK(cudaDeviceGetPCIBusId(place, sizeof place, device) == cudaSuccess);
    CHECK(cudaDeviceGetByPCIBusId(&found, place) == cudaSuccess);
    CHECK(found == device);
  }
  int count = 0;
  standin::devices(2);
  CHECK(cudaGetDeviceCount(&count) == cudaSuccess);
  CHECK(count == 2);
}

TEST_CASE_FIXTURE(clean, "what is left behind is listed") {
  CHECK(standin::alive().empty());
  float* p = on_device();
  const auto s = make_stream();
  const auto e = make_event();
  CHECK(standin::alive().size() == 3);
  cudaFree(p);
  cudaStreamDestroy(s);
  cudaEventDestroy(e);
  CHECK(standin::alive().empty());
}
