// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// Collectives over NCCL: `post` enqueues all of a collective on the channel's stream, and the host goes on.
///
/// `native` is ncclAllReduce, in place. It only sums, in an order of NCCL's own: the same bits on all ranks, but others for another number
/// of ranks. Every other strategy runs as it is written: a round is one group of ncclSend and ncclRecv; copies are received where they
/// belong, additions into staging memory and from there in one pass, in the strategy's order, so the bits are those of threads.
///
/// Σw travels with part 0 of an update, in the same group: the ranks' weights are gathered (8 bytes each) and added on the device in the
/// canonical tree. It stays there for whoever divides, and is copied to the host for `total_weight`.
///
/// Since posts are made in the same order on all ranks, so are NCCL's calls, whatever threads then drive the rounds: there is nothing left
/// to drive. All of it can be captured in a CUDA graph, once an update that was not has made its staging memory. What the host gives is
/// frozen in the graph, so a weight other than 1 is refused: it would be that of every launch. Graphs have to be destroyed before the
/// channel: its destructor says so where one is alive, and what the graph uses then stays where it is (`nccl_link::give_back`).
#pragma once

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "gradsync/comm/nccl_check.hpp"
#include "gradsync/comm/nccl_link.hpp"
#include "gradsync/comm/nccl_weights.hpp"
#include "gradsync/comm/program.hpp"
#include "gradsync/comm/transport.hpp"
#include "gradsync/core/error.hpp"
#include "gradsync/cuda/capture.hpp"
#include "gradsync/cuda/memory.hpp"
#include "gradsync/cuda/stream.hpp"

namespace gradsync {

/// Used by its rank's thread only. Buffers are contiguous device memory of the rank's device.
class nccl_channel {
 public:
  using stream_type = cuda_stream;
  static constexpr bool fused_is_weighted = false;   ///< ncclAllReduce only sums
  static constexpr bool fused_is_canonical = false;  ///< and in an order of its own

  nccl_channel(std::shared_ptr<detail::nccl_link> link, int size, std::size_t slots)
      : link_(std::move(link)), size_(size), stream_(std::make_shared<cuda_stream>(link_->device(), stream_priority::high)),
        weights_(std::make_unique<detail::nccl_weights>(link_->device(), size, std::bit_ceil(2 * std::max<std::size_t>(slots, 1)))) {
    link_->add_stream(stream_);
  }
  ~nccl_channel() {
    if (link_ == nullptr) return;
    link_->settle(*stream_);  // which still uses the memory below
    if (!graphs_.gone())
      std::fprintf(stderr,
                   "gradsync[%s]: a CUDA graph is alive that has captured steps of a synchronizer which is being destroyed; launch it no "
                   "more, and destroy graphs, and what was instantiated from them, before the synchronizer\n",
                   link_->outcome().name(link_->rank()).c_str());
    using used = std::tuple<decltype(memory_), decltype(outgrown_), decltype(weights_)>;
    link_->give_back(std::make_shared<used>(std::move(memory_), std::move(outgrown_), std::move(weights_)));
  }
  nccl_channel(nccl_channel&&) = default;
  nccl_channel& operator=(nccl_channel&& other) noexcept {
    std::destroy_at(this);
    return *std::construct_at(this, std::move(other));
  }

  cuda_stream& stream() { return *stream_; }

  /// Before work that comes after `user`. If `user` is being captured, the graph is known from now on, so that all it needs stays as long
  /// as it does; `usage_error`, and nothing changed, if a micro-step of this weight can't be captured.
  void enter_capture(cudaStream_t user, double weight) {
    if (!is_capturing(user)) return;
    const auto refuse = [&](const std::string& why) { throw usage_error(why, link_->outcome().at(link_->rank())); };
    if (size_ > 1 && weight != 1)
      refuse("the weight " + std::to_string(weight) +
             " would be frozen in the CUDA graph that is being captured, for all its launches; capture steps of weight 1");
    if (size_ > 1 && sequence_ == 0)
      refuse("the first step, and the first one of a new plan, makes memory and waits; capture one after it");
    graphs_.add(user);
    link_->captured_on(user);
  }

  ticket post(const program& p, const contribution& mine) {
    enter_capture(stream_->native(), 1);  // whoever folds its micro-steps knows their weights
    const ticket t{.sequence = sequence_++, .base = 0, .pieces = 1};
    const detail::nccl_request request{p.fused ? "ncclAllReduce" : p.name.c_str(), mine.buffer.count(), mine.buffer.type};
    weighs_ = mine.part == 0;
    if (weighs_) weights_->put(*stream_, t.sequence, mine.weight);
    else weights_->repeat(t.sequence);
    const extent all = whole(mine.buffer);
    const std::uint64_t number = link_->announce(request);
    const on_device here(link_->device());
    const auto enqueue = [&] {
      if (p.fused) reduce(mine.buffer.type, all);
      else
        for (int k = 0; k < p.rounds(); ++k) exchange(p, k, mine.buffer.type, all, weights_->total(t.sequence));
      if (weighs_ && p.rounds() == 0) {  // with one of which they would have travelled
        share_weight();
        weights_->add(*stream_);
      }
    };
    detail::calling_nccl(enqueue, [&] { link_->check(); });
    link_->enqueued(stream_->native(), request.what, number);
    return t;
  }

  // All is enqueued, and what follows on the stream comes after it.
  bool exchange(const program&, const ticket&, int, std::uint32_t, const deadline&) const { return going_on(); }
  bool reduce(const ticket&, const deadline&) const { return going_on(); }
  bool drain(const program&, const ticket&, const deadline&) const { return going_on(); }

  const double* total(const ticket& t) const { return weights_->total(t.sequence); }

  /// Blocks until the device knows it. `usage_error` during a graph's capture.
  double total_weight(const ticket& t) {
    link_->refuse_capture("total_weight()");
    link_->await(stream_->native());
    return weights_->on_host(t.sequence);
  }

  /// Waits until the device has left this rank's buffers.
  void leave() { link_->settle(*stream_); }

  std::size_t scratch_bytes() const { return weights_->bytes() + capacity_; }

 private:
  bool going_on() const { return link_->check(), true; }

  extent whole(const buffer_view& buffer) const {
    if (buffer.extents.size() > 1)
      throw usage_error("NCCL sums contiguous buckets, not " + std::to_string(buffer.extents.size()) + " pieces; use layout::packed",
                        link_->outcome().at(link_->rank()));
    return buffer.extents.empty() ? extent{} : buffer.extents[0];
  }

  // Into the group that is open.
  void share_weight() {
    weighs_ = false;
    weights_->gather(*stream_, link_->native());
  }

  void reduce(dtype type, const extent& all) {
    const cudaStream_t on = stream_->native();
    const bool weighed = weighs_;
    detail::nccl_batch together;
    if (all.count > 0) check(ncclAllReduce(all.data, all.data, all.count, nccl_type(type), ncclSum, link_->native(), on), "ncclAllReduce");
    if (weighs_) share_weight();
    together.end();
    if (weighed) weights_->add(*stream_);
  }

  // A stretch of elements, and where they lie on this rank.
  struct stretch {
    std::size_t begin, end;
    std::byte* data;  // of element `begin`
    buffer_view view(dtype type, extent& storage) const {
      storage = {data, begin, end - begin};
      return {type, std::span(&storage, 1)};
    }
  };

  void exchange(const program& p, int round, dtype type, const extent& all, const double* total) {
    const std::size_t width = size_of(type);
    const buffer_view buffer{type, std::span(&all, all.count > 0 ? 1 : 0)};
    prepare(p, buffer);
    const auto [scratch_begin, scratch_end] = p.scratch_of(buffer);
    const auto at = [&](const operation& op, region where) {
      const std::size_t begin = cut(buffer, p.chunks, op.first), end = cut(buffer, p.chunks, op.first + op.count);
      std::byte* const base = where == region::buffer ? all.data : memory_.get();
      return stretch{begin, end, base + (begin - (where == region::buffer ? 0 : scratch_begin)) * width};
    };
    std::byte* staged = memory_.get() + rounded_up((scratch_end - scratch_begin) * width);
    incoming_.clear();

    const cudaStream_t on = stream_->native();
    const bool weighed = weighs_;
    detail::nccl_batch together;
    for (const operation& op : p.round(round)) {
      const stretch out = at(op, op.from);
      if (op.what == operation::kind::send) {
        check(ncclSend(out.data, (out.end - out.begin) * width, ncclUint8, op.peer, link_->native(), on), "ncclSend");
        continue;
      }
      const bool copies = op.what == operation::kind::copy;
      incoming_.push_back({out.begin, out.end, copies ? at(op, op.to).data : staged});
      if (op.peer == p.rank) continue;  // comes home from scratch
      check(ncclRecv(incoming_.back().data, (out.end - out.begin) * width, ncclUint8, op.peer, link_->native(), on), "ncclRecv");
      if (!copies) staged += rounded_up((out.end - out.begin) * width);
    }
    if (weighs_) share_weight();
    together.end();
    if (weighed) weights_->add(*stream_);
    perform(p, round, type, at, total);
  }

  // What is done with the messages of a round, in the program's order.
  template <class At>
  void perform(const program& p, int round, dtype type, At&& at, const double* total) {
    std::size_t k = 0;
    for (std::span<const operation> left = p.round(round); !left.empty();) {
      const operation& op = left[0];
      std::size_t taken = 1;
      if (op.what == operation::kind::join)
        while (taken < left.size() && left[taken].what == operation::kind::join && left[taken].first == op.first) ++taken;
      if (op.what == operation::kind::copy && op.peer == p.rank) copy(type, at(op, op.to), at(op, op.from));
      if (op.what == operation::kind::add || op.what == operation::kind::join) add(left.first(taken), k, type, at, total);
      if (op.what != operation::kind::send) k += taken;
      left = left.subspan(taken);
    }
  }

  void copy(dtype type, const stretch& to, const stretch& from) {
    const extent a{to.data, 0, to.end - to.begin}, b{from.data, 0, to.end - to.begin};
    if (a.count > 0) stream_->copy({type, std::span(&a, 1)}, {type, std::span(&b, 1)});
  }

  // An addition, or a join of all ranks' parts, which messages k, k + 1, ... have brought; by ascending rank, this one among them. In an
  // addition the own part comes first.
  template <class At>
  void add(std::span<const operation> ops, std::size_t k, dtype type, At&& at, const double* total) {
    const operation& op = ops[0];
    const stretch to = at(op, op.to), own = at(op, op.own);
    if (to.begin == to.end) return;
    extents_.resize(ops.size() + 2);
    sources_.clear();
    const bool joins = op.what == operation::kind::join;
    const auto own_part = [&] { sources_.push_back(own.view(type, extents_[ops.size()])); };
    bool placed = !joins;
    if (!joins) own_part();
    for (std::size_t i = 0; i < ops.size(); ++i) {
      if (!placed && ops[i].peer > link_->rank()) own_part(), placed = true;
      sources_.push_back(incoming_[k + i].view(type, extents_[i]));
    }
    if (!placed) own_part();
    const device_number by = op.divides ? device_number{.at = total} : device_number{};
    stream_->join(to.view(type, extents_.back()), sources_, {to.begin, to.end}, by);
  }

  // Memory for a program: its scratch, and the messages of its fullest round. All collectives of the channel have the same, since they run
  // one after the other; what is outgrown stays, for graphs that know it.
  void prepare(const program& p, const buffer_view& buffer) {
    const std::size_t width = size_of(buffer.type);
    std::size_t most = 0;
    for (int k = 0; k < p.rounds(); ++k) {
      std::size_t sum = 0;
      for (const operation& op : p.round(k))
        if (op.what == operation::kind::add || op.what == operation::kind::join)
          sum += rounded_up((cut(buffer, p.chunks, op.first + op.count) - cut(buffer, p.chunks, op.first)) * width);
      most = std::max(most, sum);
    }
    const std::size_t bytes = rounded_up(p.scratch_bytes(buffer)) + most;
    if (bytes <= capacity_) return;
    if (is_capturing(stream_->native()))
      throw usage_error(p.name + " has no staging memory of " + std::to_string(bytes) +
                            " bytes yet, and none can be made during a graph's capture; run one step before you capture",
                        link_->outcome().at(link_->rank()));
    if (memory_ != nullptr) outgrown_.push_back(std::move(memory_));
    memory_ = device_memory(bytes, link_->device());
    capacity_ = bytes;
  }

  static constexpr std::size_t rounded_up(std::size_t bytes) { return (bytes + 255) / 256 * 256; }

  std::shared_ptr<detail::nccl_link> link_;
  captured_graphs graphs_;
  int size_;
  std::shared_ptr<std::byte> memory_;
  std::vector<std::shared_ptr<std::byte>> outgrown_;
  std::size_t capacity_ = 0;
  std::shared_ptr<cuda_stream> stream_;
  std::unique_ptr<detail::nccl_weights> weights_;
  std::uint32_t sequence_ = 0;
  bool weighs_ = false;            // the weights have still to be gathered for the collective that is being posted
  std::vector<stretch> incoming_;  // of a round, in its order
  std::vector<extent> extents_;    // scratch
  std::vector<buffer_view> sources_;
};

static_assert(fused_channel<nccl_channel>);

}  // namespace gradsync
