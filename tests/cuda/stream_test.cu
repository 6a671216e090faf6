// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0
#include "gradsync/cuda/stream.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <deque>
#include <vector>

#include "gradsync/core/host_stream.hpp"
#include "tests/cuda/staged.hpp"
#include "tests/cuda_standin/standin.hpp"
#include "tests/laws/stream_laws.hpp"

using namespace gradsync;

namespace {

// Floats in device memory, one extent.
class floats {
 public:
  explicit floats(std::size_t n, int device = 0) : memory_(device_memory(n * sizeof(float), device)), all_{memory_.get(), 0, n} {}
  floats(const floats&) = delete;
  floats& operator=(const floats&) = delete;

  buffer_view view() const { return {dtype::float32, std::span(&all_, 1)}; }
  void set(const std::vector<float>& values) { tests::to_device(memory_.get(), values.data(), values.size() * sizeof(float)); }
  std::vector<float> values() const {
    std::vector<float> values(all_.count);
    check(cudaMemcpy(values.data(), memory_.get(), values.size() * sizeof(float), cudaMemcpyDeviceToHost), "cudaMemcpy");
    return values;
  }

 private:
  std::shared_ptr<std::byte> memory_;
  extent all_;
};

class user_stream {
 public:
  user_stream() { check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags"); }
  ~user_stream() { static_cast<void>(cudaStreamDestroy(stream_)); }
  user_stream(const user_stream&) = delete;
  user_stream& operator=(const user_stream&) = delete;
  operator cudaStream_t() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

std::size_t launches() {
  const auto all = standin::executed();
  return static_cast<std::size_t>(std::count_if(all.begin(), all.end(), [](const std::string& s) { return s.find("kernel") != s.npos; }));
}

void settle(cudaStream_t s) { check(cudaStreamSynchronize(s), "cudaStreamSynchronize"); }

}  // namespace

TEST_CASE_TEMPLATE("a CUDA stream obeys the laws of a stream, to the bit", T, float, double) {
  cuda_stream s(0, stream_priority::high);
  tests::staged on_device(s);
  laws::stream_laws<T>(on_device);
}

TEST_CASE("a bucket of many gradients is packed and unpacked by a launch or two each") {
  cuda_stream s(0);
  const std::size_t count = 150;
  floats bucket(100 * count);
  std::deque<floats> gradients;
  std::vector<extent> slots, places;
  bucket.set(std::vector<float>(100 * count, 0));
  for (std::size_t i = 0; i < count; ++i) {
    gradients.emplace_back(100).set(std::vector<float>(100, static_cast<float>(i)));
    slots.push_back({bucket.view().extents[0].data + 400 * i, 0, 100});
  }
  standin::seed(1);
  for (std::size_t i = 0; i < count; ++i) s.fold({dtype::float32, std::span(&slots[i], 1)}, gradients[i].view(), 2, {});
  settle(s.native());
  CHECK(launches() == 2);
  for (std::size_t i = 0; i < count; ++i) s.divide(gradients[i].view(), {dtype::float32, std::span(&slots[i], 1)}, 4.0);
  settle(s.native());
  CHECK(launches() == 4);
  for (std::size_t i = 0; i < count; ++i) CHECK(gradients[i].values() == std::vector<float>(100, static_cast<float>(i) / 2));
}

TEST_CASE("an operation comes after those whose results it reads or overwrites, and after those that read what it overwrites") {
  for (unsigned seed = 1; seed <= 20; ++seed) {
    standin::seed(seed);
    cuda_stream s(0);
    floats a(40), b(40), c(40), d(40);
    a.set(std::vector<float>(40, 1)), b.set(std::vector<float>(40, 2)), c.set(std::vector<float>(40, 3)), d.set(std::vector<float>(40, 4));
    s.copy(b.view(), a.view());  // b = 1
    s.copy(c.view(), b.view());  // c = 1: reads a result
    s.copy(b.view(), d.view());  // b = 4: overwrites a result, and what was read
    s.copy(d.view(), c.view());  // d = 1: overwrites what was read
    settle(s.native());
    CHECK(b.values() == std::vector<float>(40, 4));
    CHECK(c.values() == std::vector<float>(40, 1));
    CHECK(d.values() == std::vector<float>(40, 1));
  }
}

TEST_CASE("gradients that the user's stream writes are read afterwards, and results before the user's stream reads them") {
  int wrong_without_wait = 0, wrong_without_release = 0;
  for (unsigned seed = 1; seed <= 300; ++seed)
    for (const int fault : {0, 1, 2}) {
      standin::seed(seed);
      cuda_stream s(0, stream_priority::high);
      user_stream compute;
      floats gradient(1000), bucket(1000);
      const auto from = pinned_memory(4000), to = pinned_memory(4000);
      const auto* result = reinterpret_cast<float*>(to.get());
      std::fill_n(reinterpret_cast<float*>(from.get()), 1000, 6.0f);
      check(cudaMemcpyAsync(gradient.view().extents[0].data, from.get(), 4000, cudaMemcpyHostToDevice, compute), "cudaMemcpyAsync");
      if (fault != 1) s.wait_for(compute);
      s.fold(bucket.view(), gradient.view(), 3, {});
      s.divide(gradient.view(), bucket.view(), 9.0);
      if (fault != 2) s.release_to(compute);
      else s.flush();
      check(cudaMemcpyAsync(to.get(), gradient.view().extents[0].data, 4000, cudaMemcpyDeviceToHost, compute), "cudaMemcpyAsync");
      settle(compute);
      const bool right = std::all_of(result, result + 1000, [](float x) { return x == 2; });
      if (fault == 0) CHECK(right);
      if (fault == 1 && !right) ++wrong_without_wait;
      if (fault == 2 && !right) ++wrong_without_release;
      settle(s.native());
    }
  CHECK(wrong_without_wait > 0);
  CHECK(wrong_without_release > 0);
}

TEST_CASE("what is not launched when a stream is destroyed is dropped") {
  floats a(4), b(4);
  a.set({1, 2, 3, 4}), b.set({0, 0, 0, 0});
  {
    cuda_stream s(0);
    s.copy(b.view(), a.view());
  }
  CHECK(b.values() == std::vector<float>{0, 0, 0, 0});
}

TEST_CASE("a stream works on its own device, whichever is current") {
  cuda_stream s(1);
  floats a(3, 1), b(3, 1);
  a.set({1, 2, 3});
  CHECK(current_device() == 0);
  s.copy(b.view(), a.view());
  settle(s.native());
  CHECK(b.values() == std::vector<float>{1, 2, 3});
  CHECK(s.device() == 1);
}

TEST_CASE_TEMPLATE("several sources become their canonical tree in one pass, in one of them or elsewhere, or in all", T, float, double) {
  cuda_stream s(0);
  tests::staged on_device(s);
  for (const std::size_t count : {1u, 2u, 3u, 4u, 5u, 8u, 9u, 16u, 23u, 64u}) {
    const std::size_t n = 700 + count;
    std::deque<laws::scattered<T>> buffers;
    std::vector<buffer_view> views;
    std::vector<std::vector<T>> values;
    std::vector<double> scales;
    for (std::size_t k = 0; k < count; ++k) {
      values.push_back(laws::numbers<T>(count, static_cast<int>(k), n));
      views.push_back(buffers.emplace_back(values.back(), laws::pieces_of(n, count + k)).view());
      scales.push_back(k % 2 == 0 ? 3 : 0.1);
    }
    const element_range range{10, n - 9};
    const auto expected = [&](bool scaled, double by) {
      std::vector<T> all(n);
      for (std::size_t i = range.first; i < range.last; ++i) {
        const auto leaf = [&](int k) {
          const auto at = static_cast<std::size_t>(k);
          return scaled ? laws::product(values[at][i], scales[at]) : values[at][i];
        };
        all[i] = laws::quotient(laws::tree_of<T>(leaf, laws::plus<T>, 0, static_cast<int>(count)), by);
      }
      return all;
    };
    const auto matches = [&](const laws::scattered<T>& buffer, const std::vector<T>& before, std::vector<T> result) {
      for (std::size_t i = 0; i < n; ++i)
        if (i < range.first || i >= range.last) result[i] = before[i];
      return laws::same_bits(buffer.values(), result) && buffer.guards_intact();
    };
    laws::scattered<T> to(values[0], laws::pieces_of(n, 99));
    on_device.join(to.view(), views, range);
    CHECK(matches(to, values[0], expected(false, 1)));
    laws::scattered<T> divided(values[0], laws::pieces_of(n, 98));
    on_device.join(divided.view(), views, range, {.at = nullptr, .value = 0.3});
    CHECK(matches(divided, values[0], expected(false, 0.3)));
    on_device.mean(views, scales, range, {.at = nullptr, .value = 7});
    for (std::size_t k = 0; k < count; ++k) CHECK(matches(buffers[k], values[k], expected(true, 7)));
  }
}

TEST_CASE("a number is assigned in the stream's order") {
  cuda_stream s(0);
  const auto there = device_memory(2 * sizeof(double), 0);
  double* const at = reinterpret_cast<double*>(there.get());
  s.assign(at, 2.5);
  s.assign(at + 1, 3.5);
  s.assign(at, 4.5);
  settle(s.native());
  double got[2] = {};
  check(cudaMemcpy(got, at, sizeof got, cudaMemcpyDeviceToHost), "cudaMemcpy");
  CHECK(got[0] == 4.5);
  CHECK(got[1] == 3.5);
}

TEST_CASE("what is beyond one launch is refused") {
  cuda_stream s(0);
  floats a(4);
  const std::vector<buffer_view> many(65, a.view());
  CHECK_THROWS_AS(s.fold(a.view(), a.view(), 1, std::span(many).first(33)), usage_error);
  CHECK_THROWS_AS(s.join(a.view(), many, {0, 4}), usage_error);
  CHECK_THROWS_AS(s.join(a.view(), {}, {0, 4}), usage_error);
  CHECK_THROWS_AS(cuda_stream(1000), usage_error);
}

TEST_CASE("a step can be captured in a graph, which reads the sum of weights anew each time it is launched") {
  for (unsigned seed = 1; seed <= 50; ++seed) {
    standin::seed(seed);
    cuda_stream s(0);
    user_stream compute;
    floats gradient(100), bucket(100);
    const auto total = device_memory(sizeof(double), 0);
    const auto set_total = [&](double by) { tests::to_device(total.get(), &by, sizeof by); };
    check(cudaStreamBeginCapture(compute, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
    s.wait_for(compute);
    s.copy(bucket.view(), gradient.view());
    s.divide(gradient.view(), bucket.view(), reinterpret_cast<const double*>(total.get()));
    s.release_to(compute);
    cudaGraph_t graph = nullptr;
    check(cudaStreamEndCapture(compute, &graph), "cudaStreamEndCapture");
    cudaGraphExec_t step = nullptr;
    check(cudaGraphInstantiate(&step, graph, 0), "cudaGraphInstantiate");
    gradient.set(std::vector<float>(100, 12));
    for (const double by : {2.0, 3.0}) {
      set_total(by);
      check(cudaGraphLaunch(step, compute), "cudaGraphLaunch");
      settle(compute);
    }
    CHECK(gradient.values() == std::vector<float>(100, 2));
    check(cudaGraphExecDestroy(step), "cudaGraphExecDestroy");
    check(cudaGraphDestroy(graph), "cudaGraphDestroy");
  }
}
