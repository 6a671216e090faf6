// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

// Everything is compared, bit for bit, with scalar loops whose every product and sum goes through memory, so that nothing is fused.
// Built a second time for this very processor, where compilers would like to fuse.
#include "gradsync/core/arithmetic.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "tests/laws/scalar.hpp"

using namespace gradsync;
using laws::plus, laws::product, laws::quotient, laws::stored, laws::tree_of;

namespace {

// The same bits, except that one NaN is as good as another.
template <class T>
bool same(T a, T b) {
  if (a != a || b != b) return a != a && b != b;
  return std::memcmp(&a, &b, sizeof a) == 0;
}

enum class kind { ordinary, special };

template <class T>
T number(std::mt19937& random, kind what) {
  using limits = std::numeric_limits<T>;
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(random() % 1000);
  } else {
    const T odd[] = {limits::quiet_NaN(),  limits::infinity(), -limits::infinity(), T(-0.0),       T(0),
                     limits::denorm_min(), -limits::min() / 3, limits::max(),       -limits::max()};
    if (what == kind::special && random() % 4 == 0) return odd[random() % 9];
    const T mantissa = static_cast<T>(static_cast<std::int32_t>(random())) + static_cast<T>(random()) / T(4294967296.0);
    return std::ldexp(mantissa, static_cast<int>(random() % 13) - 37);
  }
}

// n elements in the middle of a block, off the alignment of any vector, with guard words around them.
template <class T>
struct block {
  block(std::size_t count, std::mt19937& random, kind what)
      : n(count), shift(17 + random() % 16), bytes((shift + n + 16) * sizeof(T), 0xA5), before(n) {
    for (T& x : before) x = number<T>(random, what);
    if (n > 0) std::memcpy(at(), before.data(), n * sizeof(T));
  }
  T* at() { return reinterpret_cast<T*>(bytes.data()) + shift; }
  bool intact() const {
    for (std::size_t i = 0; i < bytes.size(); ++i)
      if ((i < shift * sizeof(T) || i >= (shift + n) * sizeof(T)) && bytes[i] != 0xA5) return false;
    return true;
  }
  bool unchanged() { return n == 0 || std::memcmp(at(), before.data(), n * sizeof(T)) == 0; }

  std::size_t n, shift;
  std::vector<unsigned char> bytes;
  std::vector<T> before;
};

template <class T>
std::vector<block<T>> blocks(int count, std::size_t n, std::mt19937& random, kind what) {
  std::vector<block<T>> all;
  for (int j = 0; j < count; ++j) all.emplace_back(n, random, what);
  return all;
}

template <class T>
std::vector<T*> pointers_to(std::vector<block<T>>& all) {
  std::vector<T*> at;
  for (block<T>& b : all) at.push_back(b.at());
  return at;
}

template <class T>
bool intact(const std::vector<block<T>>& all) {
  for (const block<T>& b : all)
    if (!b.intact()) return false;
  return true;
}

std::vector<std::size_t> sizes() {
  std::vector<std::size_t> all;
  for (std::size_t n = 0; n <= 70; ++n) all.push_back(n);
  for (const std::size_t n : {255u, 256u, 257u, 511u, 513u, 1000u, 1031u}) all.push_back(n);
  return all;
}

const std::vector<std::size_t> few_sizes = {0, 1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 33, 64, 70, 255, 256, 257, 600};
const double inexact = (1 << 24) + 1;  // the first whole number that a float does not hold
const std::vector<double> totals = {1, 3, 0.3, inexact, 0};

}  // namespace

TEST_CASE("the tree has the largest power of two below its count at its left") {
  const int expected[] = {1, 2, 2, 4, 4, 4, 4, 8, 8, 8, 8, 8, 8, 8, 8, 16};
  for (int count = 2; count <= 17; ++count) CHECK(left_terms(count) == expected[count - 2]);
}

TEST_CASE_TEMPLATE("a fold adds the leaf's rounded product and the partial sums, smallest first", T, float, double) {
  std::mt19937 random{1};
  for (const double weight : {1.0, 0.0, -0.0, 0.1, 0.5, 3.0, 1e-3, inexact, 1e300 / 3})
    for (int count = 0; count <= 5; ++count)
      for (int alias = -2; alias < count; ++alias) {  // -2: a buffer of its own, -1: the leaf, else a partial sum
        INFO("weight " << weight << ", " << count << " partial sums, result in " << alias);
        int wrong = 0;
        for (const std::size_t n : sizes()) {
          auto own = blocks<T>(2, n, random, n % 2 == 0 ? kind::ordinary : kind::special);
          auto sums = blocks<T>(count, n, random, n % 2 == 0 ? kind::ordinary : kind::special);
          block<T>& to = alias == -2 ? own[0] : alias == -1 ? own[1] : sums[static_cast<std::size_t>(alias)];
          const auto partials = pointers_to(sums);
          const bool reads_leaf = weight != 0;
          fold<T>(to.at(), reads_leaf || alias == -1 ? own[1].at() : nullptr, weight, partials.data(), count, n);
          for (std::size_t i = 0; i < n; ++i) {
            T x = reads_leaf ? product(own[1].before[i], weight) : T(-0.0);
            for (const block<T>& partial : sums) x = stored(partial.before[i] + x);
            if (!same(to.at()[i], x)) ++wrong;
          }
          if (!intact(own) || !intact(sums)) ++wrong;
          for (block<T>& b : sums)
            if (&b != &to && !b.unchanged()) ++wrong;
          for (block<T>& b : own)
            if (&b != &to && !b.unchanged()) ++wrong;
        }
        CHECK(wrong == 0);
      }
}

TEST_CASE_TEMPLATE("a leaf of weight 0 is not read, and is the neutral element", T, float, double) {
  const T partial[] = {T(-0.0), T(0), T(3)}, leaf[] = {T(NAN), T(NAN), T(NAN)};
  const T* const partials[] = {partial};
  T to[3];
  for (const T* from : {leaf, static_cast<const T*>(nullptr)}) {
    fold<T>(to, from, 0, partials, 1, 3);
    CHECK((same(to[0], T(-0.0)) && same(to[1], T(0)) && same(to[2], T(3))));
    fold<T>(to, from, 0, nullptr, 0, 3);
    CHECK((same(to[0], T(-0.0)) && same(to[2], T(-0.0))));
  }
}

TEST_CASE_TEMPLATE("a product is rounded before it is added, also where the processor could do both at once", T, float, double) {
  std::mt19937 random{2};
  int fusing_would_show = 0, wrong = 0;
  for (int repeat = 0; repeat < 300; ++repeat) {
    const std::size_t n = 37;
    block<T> leaf(n, random, kind::ordinary), partial(n, random, kind::ordinary), to(n, random, kind::ordinary);
    const double weight = static_cast<double>(static_cast<T>(0.1 * (repeat + 1)));
    const T* const partials[] = {partial.at()};
    fold<T>(to.at(), leaf.at(), weight, partials, 1, n);
    auto pair = blocks<T>(2, n, random, kind::ordinary);
    const auto at = pointers_to(pair);
    const double scales[] = {weight, 1};
    mean_all<T>(at.data(), scales, 2, divisor<T>(1), n);
    for (std::size_t i = 0; i < n; ++i) {
      const T a = leaf.before[i], b = partial.before[i], w = static_cast<T>(weight);
      const T rounded = stored(stored(a * w) + b);
      if (std::fma(a, w, b) != rounded) ++fusing_would_show;
      if (!same(to.at()[i], rounded)) ++wrong;
      if (!same(at[0][i], stored(stored(pair[0].before[i] * w) + pair[1].before[i]))) ++wrong;
    }
  }
  CHECK(fusing_would_show > 1000);
  CHECK(wrong == 0);
}

TEST_CASE_TEMPLATE("sums, quotients and both in one are those of scalar loops, for any length, alignment and divisor", T, float, double) {
  std::mt19937 random{3};
  for (const kind what : {kind::ordinary, kind::special})
    for (const double total : totals) {
      INFO("total weight " << total);
      int wrong = 0;
      for (const std::size_t n : sizes()) {
        auto b = blocks<T>(7, n, random, what);
        add(b[0].at(), b[0].at(), b[3].at(), n);
        add_divide(b[1].at(), b[1].at(), b[3].at(), n, divisor<T>(total));
        divide(b[2].at(), b[2].at(), n, divisor<T>(total));
        add(b[4].at(), b[3].at(), b[6].at(), n);
        add_divide(b[5].at(), b[3].at(), b[6].at(), n, divisor<T>(total));
        for (std::size_t i = 0; i < n; ++i) {
          if (!same(b[0].at()[i], stored(b[0].before[i] + b[3].before[i]))) ++wrong;
          if (!same(b[1].at()[i], quotient(stored(b[1].before[i] + b[3].before[i]), total))) ++wrong;
          if (!same(b[2].at()[i], quotient(b[2].before[i], total))) ++wrong;
          if (!same(b[4].at()[i], stored(b[3].before[i] + b[6].before[i]))) ++wrong;
          if (!same(b[5].at()[i], quotient(stored(b[3].before[i] + b[6].before[i]), total))) ++wrong;
        }
        if (!intact(b) || !b[3].unchanged() || !b[6].unchanged()) ++wrong;
      }
      CHECK(wrong == 0);
    }
}

TEST_CASE("9 over 5 is the float nearest to 1.8, which 9 times a fifth is not") {
  const divisor<float> by(5);
  CHECK(by(9.0f) == 9.0f / 5);
  CHECK(by(9.0f) != 9.0f * (1 / 5.0f));
  float a = 1, b = 5;
  float* const at[] = {&a, &b};
  const double weights[] = {4, 1};
  mean_all<float>(at, weights, 2, by, 1);
  CHECK(a == 9.0f / 5);
  CHECK(b == 9.0f / 5);
}

TEST_CASE("a divisor narrows exactly where its type holds the weight; either way the quotient is rounded once") {
  CHECK(divisor<float>(1 << 24).narrows());
  CHECK_FALSE(divisor<float>(inexact).narrows());
  CHECK_FALSE(divisor<float>(0.1).narrows());
  CHECK(divisor<double>(0.1).narrows());
  CHECK_FALSE(divisor<float>(0).narrows());
  CHECK(divisor<float>(inexact)(12345.67f) == static_cast<float>(static_cast<double>(12345.67f) / inexact));
  std::mt19937 random{4};
  int wrong = 0;
  for (int i = 0; i < 100'000; ++i) {
    const float x = number<float>(random, kind::special), total = std::abs(number<float>(random, kind::ordinary)) + 1e-6f;
    if (!same(divisor<float>(total)(x), static_cast<float>(static_cast<double>(x) / static_cast<double>(total)))) ++wrong;
  }
  CHECK(wrong == 0);
}

TEST_CASE_TEMPLATE("where nobody contributed the quotient is +0, whatever was there", T, float, double) {
  for (const T x : {T(NAN), T(-1), T(-0.0), std::numeric_limits<T>::infinity()}) {
    CHECK(same(divisor<T>(0)(x), T(0)));
    T one = x, sum = x;
    divide(&one, &one, 1, divisor<T>(0));
    add_divide(&sum, &sum, &one, 1, divisor<T>(0));
    CHECK((same(one, T(0)) && same(sum, T(0))));
  }
}

TEST_CASE_TEMPLATE("the fused mean is the scalar tree of the scaled inputs, divided, in all of them, for 1 to 17 ranks", T, float, double) {
  std::mt19937 random{5};
  for (int ranks = 1; ranks <= 17; ++ranks)
    for (int variant = 0; variant < 5; ++variant) {
      std::vector<double> scales(static_cast<std::size_t>(ranks), 1);
      for (int j = 0; j < ranks; ++j) {
        double& scale = scales[static_cast<std::size_t>(j)];
        if (variant == 2) scale = j + 0.5;                        // exact in float
        if (variant == 3) scale = j % 3 == 1 ? 0.1 : 3;           // not
        if (variant == 4) scale = j == ranks - 1 ? inexact : 16;  // the last alone is not
      }
      const double* const given = variant == 0 ? nullptr : scales.data();
      for (const double total : totals) {
        INFO(ranks << " ranks, scales " << variant << ", total weight " << total);
        int wrong = 0;
        for (const std::size_t n : few_sizes) {
          auto all = blocks<T>(ranks, n, random, n % 2 == 0 ? kind::ordinary : kind::special);
          const auto at = pointers_to(all);
          mean_all<T>(at.data(), given, ranks, divisor<T>(total), n);
          for (std::size_t i = 0; i < n; ++i) {
            const auto leaf = [&](int j) {
              const T x = all[static_cast<std::size_t>(j)].before[i];
              const double scale = given != nullptr ? given[j] : 1;
              return scale == 1 ? x : product(x, scale);
            };
            const T mean = quotient(tree_of<T>(leaf, plus<T>, 0, ranks), total);
            for (const T* x : at)
              if (!same(x[i], mean)) ++wrong;
          }
          if (!intact(all)) ++wrong;
        }
        CHECK(wrong == 0);
      }
    }
}

TEST_CASE_TEMPLATE("a join puts the divided tree into one buffer and leaves the others", T, float, double) {
  std::mt19937 random{6};
  for (int ranks = 1; ranks <= 17; ++ranks)
    for (const double total : totals) {
      INFO(ranks << " ranks, total weight " << total);
      int wrong = 0;
      for (const std::size_t n : few_sizes) {
        auto all = blocks<T>(ranks + 1, n, random, n % 2 == 0 ? kind::ordinary : kind::special);
        const auto at = pointers_to(all);
        const int to = static_cast<int>(n) % (ranks + 1);  // an input, or the one behind them
        join_all<T>(at.data(), ranks, to, divisor<T>(total), n);
        for (std::size_t i = 0; i < n; ++i) {
          const auto leaf = [&](int j) { return all[static_cast<std::size_t>(j)].before[i]; };
          if (!same(at[static_cast<std::size_t>(to)][i], quotient(tree_of<T>(leaf, plus<T>, 0, ranks), total))) ++wrong;
        }
        for (int j = 0; j <= ranks; ++j)
          if (j != to && !all[static_cast<std::size_t>(j)].unchanged()) ++wrong;
        if (!intact(all)) ++wrong;
      }
      CHECK(wrong == 0);
    }
}

TEST_CASE_TEMPLATE("sums, minima and maxima of a user's own values are the scalar tree, in all buffers", T, float, double, std::int8_t,
                   std::uint8_t, std::int16_t, std::int32_t, std::uint32_t, std::int64_t, std::uint64_t) {
  std::mt19937 random{7};
  // The first NaN of the two, if there is one.
  const auto least = [](T a, T b) { return a != a ? a : b != b || b < a ? b : a; };
  const auto most = [](T a, T b) { return a != a ? a : b != b || a < b ? b : a; };
  for (int ranks = 1; ranks <= 17; ++ranks) {
    INFO(ranks << " ranks");
    int wrong = 0;
    for (const std::size_t n : few_sizes) {
      auto run = [&](auto reduce, auto apply) {
        auto all = blocks<T>(ranks, n, random, n % 2 == 0 ? kind::ordinary : kind::special);
        const auto at = pointers_to(all);
        reduce(at.data());
        for (std::size_t i = 0; i < n; ++i) {
          const T expected = tree_of<T>([&](int j) { return all[static_cast<std::size_t>(j)].before[i]; }, apply, 0, ranks);
          for (const T* x : at)
            if (!same(x[i], expected)) ++wrong;
        }
        if (!intact(all)) ++wrong;
      };
      run([&](T* const* at) { reduce_all<reduce_op::sum, T>(at, ranks, n); }, plus<T>);
      run([&](T* const* at) { reduce_all<reduce_op::min, T>(at, ranks, n); }, least);
      run([&](T* const* at) { reduce_all<reduce_op::max, T>(at, ranks, n); }, most);
    }
    CHECK(wrong == 0);
  }
}
