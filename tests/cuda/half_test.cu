// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0
#include "gradsync/cuda/half.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <deque>
#include <limits>
#include <vector>

#include "gradsync/cuda/memory.hpp"
#include "gradsync/cuda/stream.hpp"
#include "tests/cuda/staged.hpp"
#include "tests/cuda_standin/standin.hpp"
#include "tests/laws/scalar.hpp"
#include "tests/laws/scattered.hpp"

using namespace gradsync;

namespace {

// Elements in device memory, so many of them before the first that counts.
template <class T>
class row {
 public:
  explicit row(const std::vector<T>& values, std::size_t off = 0)
      : count_(values.size()), off_(off), memory_(device_memory((off + count_ + 1) * sizeof(T), 0)) {
    tests::to_device(data(), values.data(), count_ * sizeof(T));
  }
  std::byte* data() const { return memory_.get() + off_ * sizeof(T); }
  std::vector<T> values() const {
    std::vector<T> values(count_);
    check(cudaMemcpy(values.data(), data(), count_ * sizeof(T), cudaMemcpyDeviceToHost), "cudaMemcpy");
    return values;
  }

 private:
  std::size_t count_, off_;
  std::shared_ptr<std::byte> memory_;
};

template <class T>
std::vector<T> narrowed(const std::vector<float>& from) {
  std::vector<T> to;
  for (const float x : from) to.push_back(detail::from_float<T>(x));
  return to;
}

std::vector<float> numbers(int rank, std::size_t n) {
  std::vector<float> all;
  for (const float x : laws::numbers<float>(7, rank, n)) all.push_back(x * 1e-3f);
  return all;
}

template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

void settle(cuda_stream& s) { check(cudaStreamSynchronize(s.native()), "cudaStreamSynchronize"); }

}  // namespace

TEST_CASE_TEMPLATE("a cast scales in float32 and rounds once more, there and back, however the views are aligned", T, __half,
                   __nv_bfloat16) {
  cuda_stream s(0);
  for (const std::size_t n : {1u, 7u, 64u, 1000u, 9001u})
    for (const std::size_t off : {0u, 1u, 3u})
      for (const double scale : {1.0, 1024.0, 0.1}) {
        const auto values = numbers(1, n);
        const row<float> from(values, off), back(std::vector<float>(n), 2 * off);
        const row<T> to(std::vector<T>(n), off % 2);
        using there = detail::cast_body<T, float>;
        using home = detail::cast_body<float, T>;
        detail::run_list list;
        list.views = 2;
        std::byte* const first[] = {to.data(), from.data()};
        list.template push<there>(first, n);
        cast<T, float>(s.native(), list, {.at = nullptr, .value = scale});
        detail::run_list second;
        second.views = 2;
        std::byte* const then[] = {back.data(), to.data()};
        second.template push<home>(then, n);
        cast<float, T>(s.native(), second, {});
        settle(s);
        std::vector<float> expected;
        for (const float x : values) expected.push_back(laws::product(x, scale));
        CHECK(same_bits(to.values(), narrowed<T>(expected)));
        for (std::size_t i = 0; i < n; ++i) expected[i] = detail::as_float(detail::from_float<T>(expected[i]));
        CHECK(same_bits(back.values(), expected));
      }
}

TEST_CASE_TEMPLATE("a cast measures what it reads: the sum of squares repeats its bits, and what is not finite is told", T, __half,
                   __nv_bfloat16) {
  cuda_stream s(0);
  const std::size_t n = 30'001;
  auto values = numbers(2, n);
  double reference = 0;
  for (const float x : values) reference += 4.0 * x * x;
  double first_norm = 0;
  for (int repeat = 0; repeat < 4; ++repeat) {
    if (repeat == 2) values[n - 1] = std::numeric_limits<float>::infinity();
    if (repeat == 3) values[n - 1] = 0, values[17] = std::numeric_limits<float>::quiet_NaN();
    const row<float> from(values, 1);
    const row<T> to(std::vector<T>(n), 1);
    detail::run_list list;
    list.views = 2;
    std::byte* const at[] = {to.data(), from.data()};
    list.template push<detail::cast_body<T, float>>(at, n);
    const row<double> norm({0.5}), scratch(std::vector<double>(list.blocks(), -1));
    const row<unsigned> flag({0u});
    standin::seed(static_cast<unsigned>(repeat) + 1);
    cast<T, float>(s.native(), list, {.at = nullptr, .value = 2},
                   {.squared_norm = reinterpret_cast<double*>(norm.data()),
                    .non_finite = reinterpret_cast<unsigned*>(flag.data()),
                    .scratch = reinterpret_cast<double*>(scratch.data())});
    settle(s);
    const double measured = norm.values()[0] - 0.5;
    CHECK(flag.values()[0] == (repeat < 2 ? 0u : 1u));
    if (repeat == 0) first_norm = measured;
    if (repeat == 1) CHECK(measured == first_norm);
    if (repeat < 2) CHECK(std::abs(measured - reference) <= 1e-9 * reference);
    if (repeat < 2)
      CHECK(same_bits(to.values(), narrowed<T>([&] {
                        auto doubled = values;
                        for (float& x : doubled) x *= 2;
                        return doubled;
                      }())));
  }
}

TEST_CASE_TEMPLATE("16-bit sources are added in float32, in the canonical tree, and rounded once", T, __half, __nv_bfloat16) {
  cuda_stream s(0);
  const std::size_t n = 501;
  for (const int count : {1, 2, 3, 4, 5, 8, 11, 64}) {
    std::vector<std::vector<T>> sources;
    std::deque<row<T>> there;
    const row<T> narrow(std::vector<T>(n), 3);
    const row<float> wide(std::vector<float>(n), 3);
    std::vector<std::byte*> at = {narrow.data()};
    for (int k = 0; k < count; ++k) {
      sources.push_back(narrowed<T>(numbers(k, n)));
      at.push_back(there.emplace_back(sources.back(), 3).data());
    }
    detail::run_list list;
    list.views = count + 1;
    list.template push<detail::narrow_join_body<T, T, 0>>(at.data(), n);
    sum_narrow<T, T>(s.native(), list, {.at = nullptr, .value = 3});
    at[0] = wide.data();
    detail::run_list wider;
    wider.views = count + 1;
    wider.template push<detail::narrow_join_body<float, T, 0>>(at.data(), n);
    sum_narrow<float, T>(s.native(), wider, {});
    settle(s);
    std::vector<float> sums;
    for (std::size_t i = 0; i < n; ++i)
      sums.push_back(laws::tree_of<float>([&](int k) { return detail::as_float(sources[static_cast<std::size_t>(k)][i]); },
                                          laws::plus<float>, 0, count));
    CHECK(same_bits(wide.values(), sums));
    for (float& x : sums) x = laws::quotient(x, 3.0);
    CHECK(same_bits(narrow.values(), narrowed<T>(sums)));
  }
}
