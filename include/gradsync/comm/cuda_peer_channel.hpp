// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// Collectives between CUDA devices of one process, or between ranks that share a device: kernels read peers' gradients where they lie.
///
/// The host's part is that of comm/thread_channel.hpp, with "done" read as "enqueued": a rank raises its counters when a round's kernels
/// are on its stream and an event is recorded behind them; whoever waits for it then makes its own stream wait for that event. So hosts run
/// ahead of devices, a device only ever waits for work that is already enqueued somewhere, and no host waits for a device. The fused pass
/// (`reduce`) reads N inputs of the own slice, adds in the canonical tree, divides, and writes N outputs.
///
/// A rank's events are recorded again and again. A wait may then mean a later record than the one it is for, which only orders more: that
/// one is enqueued too, so it does not wait for what this rank still has to enqueue.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "gradsync/comm/pass.hpp"
#include "gradsync/comm/peers.hpp"
#include "gradsync/comm/posted_views.hpp"
#include "gradsync/comm/program.hpp"
#include "gradsync/comm/transport.hpp"
#include "gradsync/core/aligned_bytes.hpp"
#include "gradsync/core/error.hpp"
#include "gradsync/cuda/capture.hpp"
#include "gradsync/cuda/event.hpp"
#include "gradsync/cuda/memory.hpp"
#include "gradsync/cuda/stream.hpp"

namespace gradsync {

namespace detail {

// What the device's side of a channel adds to a rank's lane. Filled by its owner before it first posts; here, so that streams and events
// outlive a peer's last use of them.
struct cuda_lane {
  std::shared_ptr<cuda_stream> stream;
  cudaStream_t native = nullptr;
  std::vector<cuda_event> posted, progress;  // rings
};

struct cuda_crossing : crossing {
  explicit cuda_crossing(int size) : crossing(size), device_lanes(static_cast<std::size_t>(size)) {}
  std::vector<cuda_lane> device_lanes;
};

}  // namespace detail

class cuda_peer_channel {
 public:
  using stream_type = cuda_stream;
  static constexpr bool fused_is_weighted = true;

  /// On `device`, whose peers' devices it can access.
  cuda_peer_channel(detail::peers peers, std::shared_ptr<detail::cuda_crossing> shared, int device, std::size_t slots)
      : peers_(std::move(peers)), shared_(std::move(shared)), stream_(std::make_shared<cuda_stream>(device, stream_priority::high)),
        totals_(device_memory(std::bit_ceil(2 * std::max<std::size_t>(slots, 1)) * sizeof(double), device)), scales_(ranks()) {
    // As in the threads' channel: twice as many, so that weights can be read when peers post the next ones; and a power of two.
    peers_.make_slots(std::bit_ceil(2 * std::max<std::size_t>(slots, 1)));
    detail::cuda_lane& lane = lane_of(peers_.rank());
    lane.stream = stream_;
    lane.native = stream_->native();
    for (std::size_t i = 0; i < events_of_a_lane; ++i) {
      lane.posted.emplace_back(device);
      lane.progress.emplace_back(device);
    }
  }

  /// `usage_error` if `user` is being captured.
  void enter_capture(cudaStream_t user, double) const {
    if (is_capturing(user))
      throw usage_error("ranks of a cuda_peer_group meet on the host, so no CUDA graph can capture their steps; use NCCL for that",
                        {.rank = peers_.rank(), .step = -1, .bucket = -1, .parameter = {}});
  }

  ticket post(const program& p, const contribution& contribution) {
    const ticket t{.sequence = sequence_++, .base = base_, .pieces = 1};
    base_ += static_cast<std::uint32_t>(p.fused ? 1 : std::max(1, p.rounds()));
    const extent scratch = scratch_for(p, t, contribution.buffer);
    event_of(lane_of(peers_.rank()).posted, t.sequence).record(stream_->native());
    peers_.post(t, contribution, scratch);
    return t;
  }

  /// Enqueues a round. True when its kernels are on the stream.
  bool exchange(const program& p, const ticket& t, int round, std::uint32_t, const deadline& until) {
    for (const operation& op : p.round(round)) {
      if (op.what == operation::kind::send) continue;  // the peer comes and reads
      if (!peers_.posted(op.peer, t, until)) return false;
      if (op.from == region::scratch) detail::expect_scratch(peers_, p, op, t);
      if (round > 0 && !peers_.passed(op.peer, tick(t, round - 1), until)) return false;
      for (const hazard& reader : hazards_of(p, op))
        if (!peers_.passed(reader.peer, tick(t, reader.round), until)) return false;
    }
    const detail::pass inside(peers_);
    for (const operation& op : p.round(round)) {
      if (op.what == operation::kind::send) continue;
      await_posted(op.peer, t);
      if (round > 0) await_tick(op.peer, tick(t, round - 1));
      for (const hazard& reader : hazards_of(p, op)) await_tick(reader.peer, tick(t, reader.round));
    }
    for (std::span<const operation> left = p.round(round), now; !left.empty(); left = left.subspan(now.size())) {
      now = left.first(performed_at_once(left));
      if (now[0].what != operation::kind::send) perform(p, now, t);
    }
    raise(tick(t, round));
    return true;
  }

  /// The fused all-reduce of gradients: this rank's slice, in all ranks' buffers.
  bool reduce(const ticket& t, const deadline& until) {
    return pass_over_all(t, until, [&] {
      for (int peer = 0; peer < peers_.size(); ++peer) scales_[static_cast<std::size_t>(peer)] = peers_.posted_by(peer, t).lent.scale;
      const buffer_view& own = peers_.lent(t);
      stream_->mean(views_, scales_, {cut(own, peers_.size(), peers_.rank()), cut(own, peers_.size(), peers_.rank() + 1)},
                    {.value = total_weight(t)});
    });
  }

  /// Copies the root's elements into every rank's buffer.
  bool broadcast(const ticket& t, int root, const deadline& until) {
    if (peers_.rank() != root) {
      if (!peers_.posted(root, t, until)) return false;
      const detail::pass inside(peers_);
      await_posted(root, t);
      stream_->copy(peers_.lent(t), peers_.lent(root, t));
      raise(t.base + 1);
      return true;
    }
    for (int peer = 0; peer < peers_.size(); ++peer)
      if (!peers_.posted(peer, t, until)) return false;
    raise(t.base + 1);
    return all_through(t.base + 1, until);
  }

  /// `part` becomes the canonical tree over what lies at this rank's place in all ranks' buffers.
  bool reduce_scatter(const ticket& t, const extent& part, const deadline& until) {
    const bool passed = pass_over_all(t, until, [&] {
      const std::size_t first = part.count * static_cast<std::size_t>(peers_.rank());
      const extent own{part.data, first, part.count};
      stream_->join({peers_.lent(t).type, std::span(&own, 1)}, views_, {first, first + part.count});
    });
    return passed && all_through(t.base + 1, until);
  }

  /// `all` becomes every rank's buffer, by rank.
  bool all_gather(const ticket& t, const extent& all, const deadline& until) {
    const bool passed = pass_over_all(t, until, [&] {
      const dtype type = peers_.lent(t).type;
      for (std::size_t peer = 0; peer < views_.size(); ++peer) {
        const extent& theirs = views_[peer].extents[0];
        const extent to{all.data + peer * views_[peer].bytes(), 0, theirs.count};
        if (to.data != theirs.data) stream_->copy({type, std::span(&to, 1)}, views_[peer]);
      }
    });
    return passed && all_through(t.base + 1, until);
  }

  /// True: what this rank's stream is given from now on comes after the last use that peers make of the buffer.
  bool drain(const program& p, const ticket& t, const deadline& until) {
    if (p.fused) return all_through(t.base + 1, until);
    for (const hazard& reader : p.readers)
      if (!peers_.passed(reader.peer, tick(t, reader.round), until)) return false;
    for (const hazard& reader : p.readers) await_tick(reader.peer, tick(t, reader.round));
    return true;
  }

  /// Known to the host as soon as all ranks have posted.
  double total_weight(const ticket& t) const { return peers_.total_weight(t); }

  /// The same in the device's memory, written in this stream's order.
  const double* total(const ticket& t) {
    double* const at = reinterpret_cast<double*>(totals_.get()) + t.sequence % peers_.mine().slots.size();
    stream_->assign(at, total_weight(t));
    return at;
  }

  cuda_stream& stream() { return *stream_; }

  /// After a failure: waits until no peer's kernel is in this rank's memory, and none will come.
  void leave() {
    peers_.leave();
    for (int peer = 0; peer < peers_.size(); ++peer)  // a peer that has not posted has enqueued nothing, and may still have no stream
      if (peers_.has_posted(peer)) static_cast<void>(cudaStreamSynchronize(lane_of(peer).native));
    static_cast<void>(cudaStreamSynchronize(lane_of(peers_.rank()).native));
  }

  /// Of this rank, so far, in its device's memory.
  std::size_t scratch_bytes() const {
    std::size_t sum = 0;
    for (const aligned_bytes& one : peers_.mine().scratch) sum += one.size();
    return sum;
  }

 private:
  static constexpr std::size_t events_of_a_lane = 16;

  std::size_t ranks() const { return static_cast<std::size_t>(peers_.size()); }
  detail::cuda_lane& lane_of(int rank) const { return shared_->device_lanes[static_cast<std::size_t>(rank)]; }
  static std::uint32_t tick(const ticket& t, int round) { return t.base + static_cast<std::uint32_t>(round) + 1; }
  static cuda_event& event_of(std::vector<cuda_event>& ring, std::uint32_t number) { return ring[number % events_of_a_lane]; }
  static std::span<const hazard> hazards_of(const program& p, const operation& op) {
    return std::span(p.hazards).subspan(static_cast<std::size_t>(op.hazard_begin),
                                        static_cast<std::size_t>(op.hazard_end - op.hazard_begin));
  }

  // This rank's stream goes on when the peer's has come so far. The peer has said that it is enqueued.
  void await_posted(int peer, const ticket& t) {
    if (peer != peers_.rank()) event_of(lane_of(peer).posted, t.sequence).delay(stream_->native());
  }
  void await_tick(int peer, std::uint32_t target) {
    if (peer != peers_.rank()) event_of(lane_of(peer).progress, target).delay(stream_->native());
  }
  void raise(std::uint32_t target) {
    event_of(lane_of(peers_.rank()).progress, target).record(stream_->native());
    peers_.mine().progress.raise(target);
  }

  // A pass in which this rank's stream reads all ranks' buffers, which are views_ meanwhile.
  template <class F>
  bool pass_over_all(const ticket& t, const deadline& until, F&& enqueue) {
    for (int peer = 0; peer < peers_.size(); ++peer)
      if (!peers_.posted(peer, t, until)) return false;
    const detail::pass inside(peers_);
    views_.clear();
    for (int peer = 0; peer < peers_.size(); ++peer) {
      await_posted(peer, t);
      views_.push_back(peers_.lent(peer, t));
    }
    enqueue();
    raise(t.base + 1);
    return true;
  }

  // True: this rank's stream goes on when all ranks' have come so far.
  bool all_through(std::uint32_t target, const deadline& until) {
    for (int peer = 0; peer < peers_.size(); ++peer)
      if (!peers_.passed(peer, target, until)) return false;
    for (int peer = 0; peer < peers_.size(); ++peer) await_tick(peer, target);
    return true;
  }

  // The slot's scratch. The collective that had it was drained before this one was posted, so this stream comes after its readers.
  extent scratch_for(const program& p, const ticket& t, const buffer_view& buffer) {
    const std::size_t bytes = p.fused ? 0 : p.scratch_bytes(buffer);
    if (bytes == 0) return {};
    aligned_bytes& memory = peers_.mine().scratch[t.sequence % peers_.mine().scratch.size()];
    if (memory.size() < bytes) memory = aligned_bytes(device_memory(bytes, stream_->device()), bytes);
    const auto [begin, end] = p.scratch_of(buffer);
    return {memory.data(), begin, end - begin};
  }

  element_range range_of(const program& p, const operation& op, const ticket& t) const {
    return {cut(peers_.lent(t), p.chunks, op.first), cut(peers_.lent(t), p.chunks, op.first + op.count)};
  }

  void perform(const program& p, std::span<const operation> now, const ticket& t) {
    const operation& op = now[0];
    const element_range range = range_of(p, op, t);
    const buffer_view to = detail::view_of(peers_, peers_.rank(), op.to, t), own = detail::view_of(peers_, peers_.rank(), op.own, t);
    const device_number by{.at = nullptr, .value = op.divides ? total_weight(t) : 1};
    if (op.what == operation::kind::copy) return stream_->copy(to, detail::view_of(peers_, op.peer, op.from, t), range);
    if (op.what == operation::kind::add) return stream_->join(to, std::array{own, detail::view_of(peers_, op.peer, op.from, t)}, range, by);
    views_.resize(ranks());
    for (const operation& theirs : now)
      views_[static_cast<std::size_t>(theirs.peer)] = detail::view_of(peers_, theirs.peer, theirs.from, t);
    views_[static_cast<std::size_t>(peers_.rank())] = own;
    stream_->join(to, views_, range, by);
  }

  detail::peers peers_;
  std::shared_ptr<detail::cuda_crossing> shared_;
  std::shared_ptr<cuda_stream> stream_;
  std::shared_ptr<std::byte> totals_;  // one for each slot, on the device
  std::uint32_t sequence_ = 0, base_ = 0;
  std::vector<buffer_view> views_;  // scratch, one entry a rank
  std::vector<double> scales_;
};

static_assert(fused_channel<cuda_peer_channel>);

}  // namespace gradsync
