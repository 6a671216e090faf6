// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// Ranks on CUDA devices whose buffers lie in host memory, as the law suites have it: a collective takes them to the device and back.
#pragma once

#include <doctest/doctest.h>

#include <cstddef>
#include <exception>
#include <memory>
#include <utility>
#include <vector>

#include "gradsync/comm/cuda_peer.hpp"
#include "tests/cuda/staged.hpp"
#include "tests/cuda_standin/standin.hpp"

namespace gradsync::tests {

// A channel for buffers in host memory, which stand on the device from `post` to `drain`.
class staged_channel {
 public:
  using stream_type = cuda_stream;
  static constexpr bool fused_is_weighted = true;

  staged_channel(cuda_peer_channel inner, std::size_t slots) : inner_(std::move(inner)), stages_(slots) {}

  ticket post(const program& p, const contribution& mine) {
    contribution there = mine;
    auto& stage = stages_[posted_++ % stages_.size()];
    if (const std::size_t room = tests::stage::room_for(mine.buffer); !stage || stage->capacity() < room)
      stage = std::make_unique<tests::stage>(inner_.stream().device(), room);
    stage->clear();
    there.buffer = stage->add(mine.buffer);
    stage->send(inner_.stream().native());
    return inner_.post(p, there);
  }
  bool exchange(const program& p, const ticket& t, int round, std::uint32_t piece, const deadline& until) {
    return inner_.exchange(p, t, round, piece, until);
  }
  bool reduce(const ticket& t, const deadline& until) { return inner_.reduce(t, until); }
  bool drain(const program& p, const ticket& t, const deadline& until) {
    if (!inner_.drain(p, t, until)) return false;
    stages_[t.sequence % stages_.size()]->fetch(inner_.stream().native());
    return true;
  }
  double total_weight(const ticket& t) {
    double there = 0;
    const double* const at = inner_.total(t);  // before native(), which sends off what writes there
    check(cudaMemcpyAsync(&there, at, sizeof there, cudaMemcpyDeviceToHost, inner_.stream().native()), "cudaMemcpyAsync");
    check(cudaStreamSynchronize(inner_.stream().native()), "cudaStreamSynchronize");
    CHECK(there == inner_.total_weight(t));
    return there;
  }
  const double* total(const ticket& t) { return inner_.total(t); }
  cuda_stream& stream() { return inner_.stream(); }
  void leave() { inner_.leave(); }
  std::size_t scratch_bytes() const { return inner_.scratch_bytes(); }

 private:
  cuda_peer_channel inner_;
  std::vector<std::unique_ptr<tests::stage>> stages_;
  std::size_t posted_ = 0;
};
static_assert(fused_channel<staged_channel>);

class staged_communicator {
 public:
  static constexpr memory_space space = memory_space::host;

  explicit staged_communicator(cuda_peer_communicator& inner) : inner_(&inner) {}
  int rank() const { return inner_->rank(); }
  int size() const { return inner_->size(); }
  staged_channel open(std::size_t slots) { return {inner_->open(slots), slots}; }
  deadline limit() const { return inner_->limit(); }
  void fail(std::exception_ptr cause) { inner_->fail(std::move(cause)); }
  void abandon(std::exception_ptr cause) { inner_->abandon(std::move(cause)); }
  void barrier() { inner_->barrier(); }
  template <class T>
  auto all_reduce(T values, reduce_op op = reduce_op::sum) {
    return inner_->all_reduce(values, op);
  }
  template <class T>
  auto broadcast(T values, int root = 0) {
    return inner_->broadcast(values, root);
  }
  void broadcast(const buffer_view& values, int root) {
    tests::stage stage(inner_->device(), tests::stage::room_for(values));
    const buffer_view there = stage.add(values);
    stage.send(inner_->compute_stream());
    inner_->broadcast(there, root);
    stage.fetch(inner_->compute_stream());
  }

 private:
  cuda_peer_communicator* inner_;
};

// Ranks on so many devices, in an order of the seed's.
struct staged_run {
  std::vector<int> devices = {0};
  unsigned* seed = nullptr;

  template <class F>
  void operator()(int size, F body) const {
    if (seed != nullptr) standin::seed((*seed)++);
    cuda_peer_group(size, devices).run([&](cuda_peer_communicator& comm) {
      staged_communicator staged(comm);
      body(staged);
    });
  }
};

}  // namespace gradsync::tests
