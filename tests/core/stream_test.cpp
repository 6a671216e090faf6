// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0
#include "gradsync/core/stream.hpp"

#include <doctest/doctest.h>

#include "gradsync/core/arithmetic.hpp"
#include "gradsync/core/host_stream.hpp"
#include "tests/laws/stream_laws.hpp"

using namespace gradsync;

namespace {

// Somebody else's stream, written from the concept's comments alone: one element at a time.
struct slow_stream {
  struct handle {};
  using total = double;
  static constexpr bool asynchronous = false;
  int operations = 0;

  template <class F>
  void each(dtype type, std::size_t n, F&& f) {
    ++operations;
    dispatch_gradient(type, [&]<class T>(std::type_identity<T> t) {
      for (std::size_t i = 0; i < n; ++i) f(t, i);
    });
  }
  template <class T>
  static T& at(const buffer_view& v, std::size_t i) {
    const extent& e = v.extents[extent_of(v, i)];
    return reinterpret_cast<T*>(e.data)[i - e.first];
  }

  void fold(const buffer_view& to, const buffer_view& leaf, double weight, std::span<const buffer_view> partials) {
    each(to.type, to.count(), [&]<class T>(std::type_identity<T>, std::size_t i) {
      T x = weight == 0 ? T(-0.0) : weighted(at<T>(leaf, i), weight);
      for (const buffer_view& partial : partials) x = at<T>(partial, i) + x;
      at<T>(to, i) = x;
    });
  }
  void divide(const buffer_view& to, const buffer_view& from, double by) {
    each(to.type, to.count(), [&]<class T>(std::type_identity<T>, std::size_t i) { at<T>(to, i) = divisor<T>(by)(at<T>(from, i)); });
  }
  void copy(const buffer_view& to, const buffer_view& from) {
    each(to.type, to.count(), [&]<class T>(std::type_identity<T>, std::size_t i) { at<T>(to, i) = at<T>(from, i); });
  }
  void wait_for(handle) {}
  void release_to(handle) {}
};

// And what is none, for want of one thing.
struct without_fold : slow_stream {
  void fold() = delete;
};
struct without_divide : slow_stream {
  void divide() = delete;
};
struct without_copy : slow_stream {
  void copy() = delete;
};
struct waits_for_nobody : slow_stream {
  void wait_for() = delete;
};
struct releases_nobody : slow_stream {
  void release_to() = delete;
};
struct says_not_when_it_is_done : slow_stream {
  bool asynchronous = false;
};
struct changes_its_sources : slow_stream {
  void copy(const buffer_view&, buffer_view&) {}
};

}  // namespace

static_assert(stream<host_stream> && stream<slow_stream>);
static_assert(!stream<int> && !stream<without_fold> && !stream<without_divide> && !stream<without_copy>);
static_assert(!stream<waits_for_nobody> && !stream<releases_nobody> && !stream<says_not_when_it_is_done>);
static_assert(!stream<changes_its_sources>);

TEST_CASE_TEMPLATE("a stream written from the concept alone obeys the laws", T, float, double) {
  slow_stream s;
  laws::stream_laws<T>(s);
  CHECK(s.operations > 1000);
}
