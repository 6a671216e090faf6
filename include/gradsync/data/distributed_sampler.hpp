// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// Deals the examples of a data set out to ranks, so that the number of ranks does not show in the result.
///
/// An epoch is a permutation of 0 .. examples-1 that depends on seed and epoch alone. It is cut into global batches of `batch` examples;
/// the last one may be smaller, and nothing is dropped or doubled. Each batch is cut into `shards` micro-batches: shard s of a batch of b
/// examples is its elements [s·b/shards, (s+1)·b/shards). Neither depends on the ranks: rank r of N merely takes the shards [r·shards/N,
/// (r+1)·shards/N), one after the other, as micro-steps of one update. So an update sums the same micro-batches on any number of ranks.
///
/// A shard may be empty (a small last batch): its micro-step weighs 0. A rank may have no shard (more ranks than shards): it contributes
/// nothing.
///
///     distributed_sampler sampler{60'000, comm.rank(), comm.size(), {.batch = 256, .shards = 8, .seed = 1}};
///     for (std::uint64_t epoch = 0; epoch < 10; ++epoch) {
///       sampler.set_epoch(epoch);
///       for (std::size_t b = 0; b < sampler.batches(); ++b) {
///         auto mine = sampler.micro_batches(b);
///         for (auto micro : mine) train(micro.indices, micro.last);
///         if (mine.empty()) sync.contribute_nothing();
///       }
///     }
///
/// To resume, store `position()` after a batch, and begin with `resume(position)`; then run from `position().batch` to the end of that
/// epoch.
///
/// The generator is SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, OOPSLA 2014) with a Fisher-Yates
/// shuffle, so that all machines and standard libraries deal alike. Memory: 8 bytes an example on each rank.
#pragma once

#include <cstddef>  // indices
#include <cstdint>  // the generator's 64 bits
#include <span>     // the examples of a micro-batch
#include <string>   // messages
#include <utility>  // swap

#include "gradsync/core/error.hpp"
#include "gradsync/core/series.hpp"

namespace gradsync {

struct distributed_sampler_options {
  std::size_t batch = 256;  ///< examples of an update, over all ranks
  std::size_t shards = 8;   ///< micro-batches of an update, over all ranks; a power of two keeps results alike for 1, 2, 4, … ranks
  std::uint64_t seed = 0;
};

/// Where training stands: the next batch to be trained is number `batch` of epoch `epoch`.
struct sampler_position {
  std::uint64_t epoch = 0;
  std::size_t batch = 0;
  friend bool operator==(const sampler_position&, const sampler_position&) = default;
};

/// One micro-step of one rank.
struct micro_batch {
  std::span<const std::size_t> indices;  ///< numbers of examples; may be empty
  std::size_t shard = 0;                 ///< which micro-batch of the global batch this is
  bool last = false;                     ///< this rank's last one of the batch
};

namespace detail {

class splitmix64 {
 public:
  explicit splitmix64(std::uint64_t state) : state_(state) {}

  std::uint64_t operator()() {
    state_ += 0x9E3779B97F4A7C15u;
    std::uint64_t x = state_;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
  }

  /// Evenly in [0, bound): numbers of the last, incomplete run of `bound` are drawn anew.
  std::uint64_t below(std::uint64_t bound) {
    const std::uint64_t incomplete = (0 - bound) % bound;  // 2^64 mod bound
    std::uint64_t x = (*this)();
    while (x < incomplete) x = (*this)();
    return x % bound;
  }

 private:
  std::uint64_t state_;
};

}  // namespace detail

/// Not for use by two threads at once; each rank has its own.
class distributed_sampler {
 public:
  /// `usage_error`: no examples, a batch or a number of shards of 0, a rank outside [0, size). Starts in epoch 0.
  distributed_sampler(std::size_t examples, int rank, int size, distributed_sampler_options options = {}) : options_(options) {
    if (examples == 0) throw usage_error("the sampler has no examples to deal out");
    if (options.batch == 0) throw usage_error("batch is 0; a batch has at least one example");
    if (options.shards == 0) throw usage_error("shards is 0; a batch has at least one shard");
    if (size < 1 || rank < 0 || rank >= size)
      throw usage_error("the sampler was given rank " + std::to_string(rank) + " of " + std::to_string(size) + "; ranks count from 0");
    const auto r = static_cast<std::size_t>(rank), ranks = static_cast<std::size_t>(size);
    first_shard_ = border(options.shards, r, ranks);
    last_shard_ = border(options.shards, r + 1, ranks);
    order_.resize(examples);
    set_epoch(0);
  }

  std::size_t batches() const { return (order_.size() - 1) / options_.batch + 1; }

  /// Deals epoch `epoch` anew, and goes to its first batch.
  void set_epoch(std::uint64_t epoch) { resume({epoch, 0}); }

  const sampler_position& position() const { return position_; }

  /// Goes to a position that `position()` gave before, of a sampler with the same options and data. `usage_error`: there is no such batch.
  void resume(sampler_position position) {
    if (position.batch > batches())
      throw usage_error("batch " + std::to_string(position.batch) + " cannot be resumed; an epoch has " + std::to_string(batches()));
    deal(position.epoch);
    position_ = position;
  }

  /// This rank's share of batch `batch` of the current epoch, in order; empty if the rank has no shard. Moves `position()` behind that
  /// batch. What is returned is valid until the next call. `usage_error`: there is no such batch.
  series_view<micro_batch> micro_batches(std::size_t batch) {
    if (batch >= batches()) throw usage_error("there is no batch " + std::to_string(batch) + "; an epoch has " + std::to_string(batches()));
    const std::size_t first = batch * options_.batch;
    const std::size_t left = order_.size() - first;
    const std::span<const std::size_t> examples{order_.data() + first, left < options_.batch ? left : options_.batch};
    micro_batches_.clear();
    for (std::size_t shard = first_shard_; shard < last_shard_; ++shard) {
      const std::size_t begin = border(examples.size(), shard, options_.shards), end = border(examples.size(), shard + 1, options_.shards);
      micro_batches_.push_back({examples.subspan(begin, end - begin), shard, shard + 1 == last_shard_});
    }
    position_.batch = batch + 1;
    return micro_batches_;
  }

 private:
  // part·total/parts without overflow.
  static std::size_t border(std::size_t total, std::size_t part, std::size_t parts) {
    return total / parts * part + total % parts * part / parts;
  }

  void deal(std::uint64_t epoch) {
    for (std::size_t i = 0; i < order_.size(); ++i) order_[i] = i;
    // Seed and epoch each pass the generator, so that (seed, epoch + 1) has nothing to do with (seed + 1, epoch).
    detail::splitmix64 seeds{options_.seed};
    detail::splitmix64 random{seeds() ^ detail::splitmix64{~epoch}()};
    for (std::size_t i = order_.size(); i > 1; --i) std::swap(order_[i - 1], order_[static_cast<std::size_t>(random.below(i))]);
  }

  distributed_sampler_options options_;
  std::size_t first_shard_ = 0, last_shard_ = 0;
  series<std::size_t> order_;
  sampler_position position_;
  series<micro_batch> micro_batches_;
};

}  // namespace gradsync
