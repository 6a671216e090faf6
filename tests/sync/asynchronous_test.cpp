// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

// The way of a gradient over streams that work asynchronously: here queues of a rank's own, whose work is done in any order that their
// waits allow. What a call must not do, and where an order must be, shows in the numbers.
#include "gradsync/sync/driver.hpp"

#include <doctest/doctest.h>

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <vector>

#include "gradsync/collective/calibrate.hpp"
#include "gradsync/comm/threads.hpp"
#include "gradsync/core/host_stream.hpp"
#include "gradsync/synchronizer.hpp"
#include "tests/sync/models.hpp"

using namespace gradsync;

namespace {

// Streams are numbers; work is done when somebody asks for the end of all of it.
class queues {
 public:
  explicit queues(unsigned seed) : choice_(seed) {}

  void give(std::size_t stream, std::function<void()> work) { of(stream).push_back({std::move(work), nullptr}); }
  // What `stream` is given from now on comes after what `other` has been given so far.
  void order(std::size_t stream, std::size_t other) {
    const auto done = std::make_shared<bool>(false);
    of(other).push_back({[done] { *done = true; }, nullptr});
    of(stream).push_back({[] {}, done});
  }
  void finish() {
    for (;;) {
      std::vector<std::size_t> able;
      for (std::size_t s = 0; s < streams_.size(); ++s)
        if (!streams_[s].empty() && (streams_[s].front().after == nullptr || *streams_[s].front().after)) able.push_back(s);
      if (able.empty()) return;
      auto& stream = streams_[able[choice_() % able.size()]];
      const auto work = std::move(stream.front().work);
      stream.pop_front();
      work();
    }
  }

 private:
  struct operation {
    std::function<void()> work;
    std::shared_ptr<bool> after;
  };
  std::deque<operation>& of(std::size_t stream) {
    if (streams_.size() <= stream) streams_.resize(stream + 1);
    return streams_[stream];
  }
  std::deque<std::deque<operation>> streams_;
  std::mt19937 choice_;
};

constexpr std::size_t own = 0, compute = 1, elsewhere = 2;  // streams

// A view that outlives the call it was handed to.
struct kept {
  explicit kept(const buffer_view& v) : type(v.type), extents(v.extents.begin(), v.extents.end()) {}
  buffer_view view() const { return {type, extents}; }
  dtype type;
  std::vector<extent> extents;
};

class late_stream {
 public:
  using handle = std::size_t;
  using total = const double*;
  static constexpr bool asynchronous = true;

  explicit late_stream(queues& device) : device_(&device) {}

  void fold(const buffer_view& to, const buffer_view& from, double weight, std::span<const buffer_view> partials) {
    std::vector<kept> all(partials.begin(), partials.end());
    device_->give(own, [to = kept(to), from = kept(from), weight, all] {
      std::vector<buffer_view> views;
      for (const kept& one : all) views.push_back(one.view());
      host_stream().fold(to.view(), from.view(), weight, views);
    });
  }
  void divide(const buffer_view& to, const buffer_view& from, double by) {
    device_->give(own, [to = kept(to), from = kept(from), by] { host_stream().divide(to.view(), from.view(), by); });
  }
  void divide(const buffer_view& to, const buffer_view& from, total by) {
    device_->give(own, [to = kept(to), from = kept(from), by] { host_stream().divide(to.view(), from.view(), *by); });
  }
  void copy(const buffer_view& to, const buffer_view& from) {
    device_->give(own, [to = kept(to), from = kept(from)] { host_stream().copy(to.view(), from.view()); });
  }
  void wait_for(handle user) { device_->order(own, user); }
  void release_to(handle user) { device_->order(user, own); }

  queues& device() { return *device_; }

 private:
  queues* device_;
};
static_assert(stream<late_stream>);

// The threads' channel, given to the stream as a whole. Like NCCL it only adds: what it is given has the weight 1/p, for p a power of two.
class late_channel {
 public:
  using stream_type = late_stream;
  static constexpr bool fused_is_weighted = false;

  late_channel(queues& device, thread_communicator& threads, std::size_t slots)
      : threads_(&threads), inner_(std::make_shared<thread_channel>(threads.open(slots))), stream_(device) {}

  ticket post(const program&, const contribution& mine) {
    CHECK(mine.scale == 1);
    if (mine.part == 0) {
      weights_.push_back(mine.weight);
      stream_.device().give(own, [at = &weights_.back(), threads = threads_] { *at = threads->all_reduce(*at); });
    }
    buffers_.emplace_back(mine.buffer);
    return {
        .sequence = static_cast<std::uint32_t>(buffers_.size() - 1), .base = static_cast<std::uint32_t>(weights_.size() - 1), .pieces = 1};
  }
  bool reduce(const ticket& t, const deadline&) {
    stream_.device().give(own, [&mine = buffers_[t.sequence], inner = inner_, threads = threads_] {
      program fused;
      fused.fused = true;
      const ticket there = inner->post(fused, {.buffer = mine.view(), .weight = 1.0 / threads->size()});
      inner->reduce(there, threads->limit());
      inner->drain(fused, there, threads->limit());
    });
    return true;
  }
  bool exchange(const program&, const ticket&, int, std::uint32_t, const deadline&) { throw usage_error("only native, here"); }
  bool drain(const program&, const ticket&, const deadline&) { return true; }
  const double* total(const ticket& t) { return &weights_[t.base]; }
  double total_weight(const ticket& t) {
    stream_.device().finish();
    return weights_[t.base];
  }
  late_stream& stream() { return stream_; }
  void leave() {}
  std::size_t scratch_bytes() const { return 0; }

 private:
  thread_communicator* threads_;
  std::shared_ptr<thread_channel> inner_;
  std::deque<kept> buffers_;
  std::deque<double> weights_;
  late_stream stream_;
};
static_assert(fused_channel<late_channel>);

class late_communicator {
 public:
  static constexpr bool peer_addressable = false;
  static constexpr memory_space space = memory_space::host;

  late_communicator(thread_communicator& threads, queues& device) : threads_(&threads), device_(&device) {}

  int rank() const { return threads_->rank(); }
  int size() const { return threads_->size(); }
  deadline limit() const { return threads_->limit(); }
  late_channel open(std::size_t slots) { return {*device_, *threads_, slots}; }
  std::size_t compute_stream() const { return compute; }
  aligned_bytes allocate(std::size_t bytes) const { return aligned_bytes(bytes); }
  void fail(std::exception_ptr cause) { threads_->fail(cause); }
  void abandon(std::exception_ptr cause) { threads_->abandon(cause); }
  template <class T>
  auto all_reduce(T value, reduce_op op) {
    return threads_->all_reduce(value, op);
  }
  template <class T>
  auto broadcast(T value, int root) {
    return threads_->broadcast(value, root);
  }
  void broadcast(const buffer_view& values, int root) { threads_->broadcast(values, root); }
  void barrier() { threads_->barrier(); }

 private:
  thread_communicator* threads_;
  queues* device_;
};
static_assert(transport<late_communicator>);

struct plan {
  unsigned seed;
  int ranks;
  accumulation_mode accumulation = accumulation_mode::tree;
  int micro_steps = 1;
  gradsync::layout layout = layout::packed;
  std::size_t written_on = compute;  // where backward runs; marks name `compute`
};

float gradient(int rank, int update, int micro, std::size_t layer, std::size_t i) {
  return static_cast<float>((rank * 7 + update * 5 + micro * 3) % 11) + 0.1f * static_cast<float>(layer) + 0.3f * static_cast<float>(i % 5);
}

// Two updates of three layers, a bucket each, backward on a stream of the user's, which then reads the means. What it has read.
template <class Communicator>
std::vector<float> train(Communicator& comm, queues& device, const plan& p) {
  auto net = test::make_layers({5, 300, 17});
  for (auto& layer : net.layer) layer.grad.assign(layer.value.size(), 0);
  std::vector<float> read;
  synchronizer sync{net, comm, {.bucket_bytes = 0, .layout = p.layout, .progress = progress::automatic, .accumulation = p.accumulation}};
  for (int update = 0; update < 2; ++update) {
    for (int micro = 0; micro < p.micro_steps; ++micro) {
      const bool last = micro + 1 == p.micro_steps;
      sync.begin({.weight = 1 + comm.rank() + micro, .micro_step = last ? micro_step::last : micro_step::more});
      for (std::size_t l = net.layer.size(); l-- > 0;) {
        device.give(p.written_on, [&grad = net.layer[l].grad, rank = comm.rank(), update, micro, l] {
          for (std::size_t i = 0; i < grad.size(); ++i) grad[i] = gradient(rank, update, micro, l, i);
        });
        sync.mark_ready(net.layer[l]);
      }
      const auto result = sync.finish();
      if constexpr (stream_of<Communicator>::asynchronous) CHECK(std::isnan(result.weight) == last);
    }
    device.give(compute, [&] {
      for (auto& layer : net.layer) read.insert(read.end(), layer.grad.begin(), layer.grad.end());
    });
    if (update == 1) {
      double expected = 0;
      for (int r = 0; r < comm.size(); ++r)
        for (int m = 0; m < p.micro_steps; ++m) expected += 1 + r + m;
      CHECK(sync.total_weight() == expected);
    }
  }
  device.finish();
  return read;
}

std::vector<float> expected(const plan& p) {
  std::vector<float> result;
  thread_group(p.ranks).run([&](thread_communicator& comm) {
    auto net = test::make_layers({5, 300, 17});
    for (auto& layer : net.layer) layer.grad.assign(layer.value.size(), 0);
    synchronizer sync{net, comm};
    for (int update = 0; update < 2; ++update) {
      for (int micro = 0; micro < p.micro_steps; ++micro) {
        sync.begin({.weight = 1 + comm.rank() + micro, .micro_step = micro + 1 == p.micro_steps ? micro_step::last : micro_step::more});
        for (std::size_t l = 0; l < net.layer.size(); ++l)
          for (std::size_t i = 0; i < net.layer[l].grad.size(); ++i) net.layer[l].grad[i] = gradient(comm.rank(), update, micro, l, i);
        sync.mark_all_ready();
        sync.finish();
      }
      if (comm.rank() == 0)
        for (auto& layer : net.layer) result.insert(result.end(), layer.grad.begin(), layer.grad.end());
    }
  });
  return result;
}

// Of so many seeds, how many end with the bits of the host.
int right(plan p, unsigned seeds) {
  const auto wanted = expected(p);
  int count = 0;
  for (p.seed = 0; p.seed < seeds; ++p.seed) {
    std::atomic<int> same{0};
    thread_group(p.ranks).run([&](thread_communicator& threads) {
      queues device(p.seed * 31 + static_cast<unsigned>(threads.rank()));
      late_communicator comm(threads, device);
      if (train(comm, device, p) == wanted) ++same;
    });
    count += same == p.ranks;
  }
  return count;
}

}  // namespace

TEST_CASE("in any order of the device's work the mean has the bits of the host") {
  for (const int ranks : {1, 2, 4})
    for (const auto how : {layout::packed, layout::in_place})
      for (const int micro_steps : {1, 2, 5}) {
        CAPTURE(ranks);
        CAPTURE(micro_steps);
        CHECK(right({.seed = 0, .ranks = ranks, .micro_steps = micro_steps, .layout = how}, 20) == 20);
      }
}

TEST_CASE("a gradient that another stream writes than its mark names is read too early, in some order") {
  CHECK(right({.seed = 0, .ranks = 2, .written_on = elsewhere}, 20) < 20);
  CHECK(right({.seed = 0, .ranks = 2, .micro_steps = 2, .written_on = elsewhere}, 20) < 20);
}

TEST_CASE("marks may name streams, each its own") {
  thread_group(2).run([](thread_communicator& threads) {
    for (unsigned seed = 0; seed < 50; ++seed) {
      queues device(seed);
      late_communicator comm(threads, device);
      auto net = test::make_layers({5, 300, 17});
      for (auto& layer : net.layer) layer.grad.assign(layer.value.size(), 0);
      synchronizer sync{net, comm};
      for (std::size_t l : {2, 1, 0}) {
        device.give(compute + l,
                    [&grad = net.layer[l].grad, rank = threads.rank()] { grad.assign(grad.size(), static_cast<float>(rank)); });
        sync.mark_ready(net.layer[l], compute + l);
      }
      sync.finish(elsewhere);
      std::vector<float> read;
      device.give(elsewhere, [&] { read = net.layer[1].grad; });
      device.finish();
      CHECK(read == std::vector<float>(300, 0.5f));
    }
  });
}

TEST_CASE("no call waits for the device after the start") {
  thread_group(1).run([](thread_communicator& threads) {
    queues device(1);
    late_communicator comm(threads, device);
    auto net = test::make_layers({4});
    net.layer[0].grad = {1, 2, 3, 4};
    synchronizer sync{net, comm};
    sync.begin({.weight = 4, .gradient = gradient_kind::sum});
    sync.mark_all_ready();
    CHECK(std::isnan(sync.finish().weight));
    CHECK(net.layer[0].grad == std::vector<float>{1, 2, 3, 4});  // nothing has run yet
    CHECK(sync.total_weight() == 4);
    device.finish();
    CHECK(net.layer[0].grad == std::vector<float>{0.25f, 0.5f, 0.75f, 1});
  });
}

TEST_CASE("the sum of the weights is known after buckets were planned anew, and not inside an update") {
  thread_group(2).run([](thread_communicator& threads) {
    queues device(1);
    late_communicator comm(threads, device);
    auto net = test::make_layers({4, 4, 4});
    for (auto& layer : net.layer) layer.grad.assign(4, 1);
    synchronizer sync{net, comm, {.bucket_bytes = 0}};
    for (int update = 0; update < 3; ++update) {
      sync.begin({.weight = update + 1});
      for (std::size_t l : {0, 2, 1}) sync.mark_ready(net.layer[l]);
      CHECK_THROWS_WITH_AS(sync.total_weight(), doctest::Contains("inside an update"), usage_error);
      sync.finish();
      CHECK(sync.replanned());
      CHECK(sync.total_weight() == 2 * (update + 1));
    }
    device.finish();
    CHECK(net.layer[1].grad == std::vector<float>(4, 1));
  });
}

TEST_CASE("a thread of the reducer's own is refused where the device drives, and where the transport forbids it") {
  thread_group(2).run([](thread_communicator& threads) {
    queues device(1);
    late_communicator late(threads, device);
    CHECK_FALSE(wants_driver(late, progress::automatic));
    CHECK_FALSE(wants_driver(late, progress::at_marks));
    CHECK_THROWS_WITH_AS(wants_driver(late, progress::thread), doctest::Contains("the device drives its collectives itself"), usage_error);
    CHECK(wants_driver(threads, progress::thread));
    CHECK_FALSE(wants_driver(threads, progress::at_marks));
    struct alone : thread_communicator {
      bool allows_driver_thread() const { return false; }
    };
    alone own_thread_only{std::move(threads)};
    CHECK_FALSE(wants_driver(own_thread_only, progress::automatic));
    CHECK_THROWS_WITH_AS(wants_driver(own_thread_only, progress::thread), doctest::Contains("only the rank's own thread"), usage_error);
  });
}

TEST_CASE("what takes the time on the host is refused where the device sums") {
  thread_group(2).run([](thread_communicator& threads) {
    queues device(1);
    late_communicator late(threads, device);
    CHECK_THROWS_WITH_AS(calibrate(late), doctest::Contains("these collectives run on a device; name a strategy"), usage_error);
  });
}
