// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

// How many bytes of gradients the library moves on a rank beside the collectives themselves: counted at the stream, where all of it passes.
#include <doctest/doctest.h>

#include <cstddef>
#include <exception>
#include <span>
#include <string>
#include <vector>

#include "gradsync/gradsync.hpp"

using namespace gradsync;

namespace {

// What a rank's stream has read and written, in elements.
struct moved {
  std::size_t read = 0, written = 0, passes = 0;
  friend bool operator==(const moved&, const moved&) = default;
};

// The stream of the host, with a count. It takes views alone, as a device's does.
class counting_stream {
 public:
  using handle = host_stream::handle;
  using total = host_stream::total;
  static constexpr bool asynchronous = false;

  explicit counting_stream(moved& count) : count_(&count) {}

  void fold(const buffer_view& to, const buffer_view& leaf, double weight, std::span<const buffer_view> partials) {
    counted((weight != 0 ? 1 : 0) + partials.size(), to);
    host_stream().fold(to, leaf, weight, partials);
  }
  void divide(const buffer_view& to, const buffer_view& from, double by) {
    counted(1, to);
    host_stream().divide(to, from, by);
  }
  void copy(const buffer_view& to, const buffer_view& from) {
    counted(1, to);
    host_stream().copy(to, from);
  }
  void wait_for(handle) {}
  void release_to(handle) {}

 private:
  void counted(std::size_t sources, const buffer_view& to) {
    count_->read += sources * to.count();
    count_->written += to.count();
    ++count_->passes;
  }
  moved* count_;
};
static_assert(stream<counting_stream>);

// The threads' channel. Its own pass is weighted, or it is one that only adds, as NCCL's is.
template <bool Weighted>
class counting_channel {
 public:
  using stream_type = counting_stream;
  static constexpr bool fused_is_weighted = Weighted;

  counting_channel(thread_channel&& inner, moved& count) : inner_(std::move(inner)), stream_(count) {}

  ticket post(const program& p, const contribution& mine) {
    contribution lent = mine;
    if (!Weighted) weight_ = lent.weight, lent.weight = p.fused ? 0.5 : lent.weight;  // two ranks: the pass divides by 1
    return inner_.post(p, lent);
  }
  bool exchange(const program& p, const ticket& t, int round, std::uint32_t piece, const deadline& until) {
    return inner_.exchange(p, t, round, piece, until);
  }
  bool reduce(const ticket& t, const deadline& until) { return inner_.reduce(t, until); }
  bool drain(const program& p, const ticket& t, const deadline& until) { return inner_.drain(p, t, until); }
  double total_weight(const ticket& t) const { return Weighted ? inner_.total_weight(t) : 2 * weight_; }
  double total(const ticket& t) const { return total_weight(t); }
  counting_stream& stream() { return stream_; }
  void leave() { inner_.leave(); }
  std::size_t scratch_bytes() const { return inner_.scratch_bytes(); }

 private:
  thread_channel inner_;
  counting_stream stream_;
  double weight_ = 0;
};
static_assert(fused_channel<counting_channel<true>>);

template <bool Weighted>
class counting_communicator {
 public:
  static constexpr bool peer_addressable = true;
  static constexpr memory_space space = memory_space::host;

  explicit counting_communicator(thread_communicator& threads) : threads_(&threads) {}

  int rank() const { return threads_->rank(); }
  int size() const { return threads_->size(); }
  deadline limit() const { return threads_->limit(); }
  counting_channel<Weighted> open(std::size_t slots) { return {threads_->open(slots), count}; }
  auto compute_stream() const { return host_stream::handle{}; }
  aligned_bytes allocate(std::size_t bytes) const { return aligned_bytes(bytes); }
  void fail(std::exception_ptr cause) { threads_->fail(cause); }
  void abandon(std::exception_ptr cause) { threads_->abandon(cause); }
  template <class T>
  auto all_reduce(T value, reduce_op op) {
    return threads_->all_reduce(value, op);
  }
  template <class T>
  auto broadcast(T&& value, int root) {
    return threads_->broadcast(std::forward<T>(value), root);
  }
  void broadcast(const buffer_view& values, int root) { threads_->broadcast(values, root); }
  void barrier() { threads_->barrier(); }

  moved count;

 private:
  thread_communicator* threads_;
};
static_assert(transport<counting_communicator<true>> && transport<counting_communicator<false>>);

struct parameter_and_view {
  std::vector<float> value;
  std::span<float> grad;
};
struct owning {
  std::vector<float> value, grad;
};
template <class Parameter>
struct net {
  std::vector<Parameter> layers;
};

constexpr std::size_t lengths[] = {700, 16, 300};
constexpr std::size_t elements = 700 + 16 + 300;

// What one update moves on each rank, the same on both, when each rank's gradient is a mean over so many examples.
template <class Parameter, bool Weighted = true, class Strategy = native>
moved moved_by_an_update(layout where, double examples, const Strategy& strategy = {}) {
  moved of[2];
  thread_group(2).run([&](thread_communicator& threads) {
    counting_communicator<Weighted> comm(threads);
    net<Parameter> model;
    for (const std::size_t n : lengths) model.layers.push_back({std::vector<float>(n), {}});
    if constexpr (std::is_same_v<Parameter, owning>)
      for (Parameter& p : model.layers) p.grad.resize(p.value.size());
    const collective<counting_communicator<Weighted>> sum{comm, strategy};
    synchronizer<net<Parameter>, counting_communicator<Weighted>> sync(model, sum, {.bucket_bytes = 2048, .layout = where});
    comm.count = {};
    sync.begin({.weight = examples});
    for (Parameter& p : model.layers)
      for (float& g : p.grad) g = static_cast<float>(comm.rank() + 1);
    sync.mark_all_ready();
    sync.finish();
    for (const Parameter& p : model.layers)
      for (const float g : p.grad) CHECK(g == 1.5f);
    of[comm.rank()] = comm.count;
  });
  CHECK(of[0] == of[1]);
  return of[0];
}

// Each element read once and written once, in a call for each of the three parameters.
constexpr moved one_pass{elements, elements, 3};

moved times(moved once, std::size_t n) { return {n * once.read, n * once.written, n * once.passes}; }

}  // namespace

TEST_CASE("gradients that lie in place, or were adopted, are moved by no one but the pass that sums them") {
  CHECK(moved_by_an_update<owning>(layout::in_place, 3) == moved{});
  CHECK(moved_by_an_update<parameter_and_view>(layout::adopted, 3) == moved{});
}

TEST_CASE("a strategy of rounds wants sums: a gradient in place is multiplied where it lies, unless its weight is 1") {
  CHECK(moved_by_an_update<owning>(layout::in_place, 3, ring{}) == one_pass);
  CHECK(moved_by_an_update<parameter_and_view>(layout::adopted, 3, ring{}) == one_pass);
  CHECK(moved_by_an_update<owning>(layout::in_place, 1, ring{}) == moved{});
}

TEST_CASE("packed gradients take one pass in, which multiplies, and one pass home") {
  for (const double examples : {1.0, 3.0}) {
    CHECK(moved_by_an_update<owning>(layout::packed, examples) == times(one_pass, 2));
    CHECK(moved_by_an_update<owning>(layout::packed, examples, ring{}) == times(one_pass, 2));
  }
}

TEST_CASE("where the transport only adds, the pass home divides") {
  CHECK(moved_by_an_update<owning, false>(layout::packed, 3) == times(one_pass, 2));
}
