// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// One rank of an NCCL communicator: a GPU among its peers. A model of `transport`, so a synchronizer runs on it as it does on threads.
///
///     gradsync::nccl_communicator comm{gradsync::find_launch()};   // one process a GPU, by torchrun, mpirun, srun or by hand
///     gradsync::synchronizer sync{net, comm};                      // net's parameters lie in device memory
///     sync.mark_ready(net.weight, stream);                         // what `stream` has been given makes the gradient
///
/// Several GPUs in one process: `nccl_group` (comm/nccl.hpp), a thread a GPU.
///
/// What NCCL is given, it is given by the rank's thread, which goes on at once; a watchdog of the communicator's own looks after it
/// (comm/nccl_watchdog.hpp). Values of the host block, and so do broadcasts and whatever makes or divides communicators; a graph's capture
/// refuses them by name. Destroy what uses a communicator, graphs that have captured its collectives among it, before the communicator.
#pragma once

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <typeinfo>  // whose usage error it is
#include <utility>
#include <vector>

#include "gradsync/comm/call.hpp"
#include "gradsync/comm/nccl_channel.hpp"
#include "gradsync/comm/nccl_check.hpp"
#include "gradsync/comm/nccl_link.hpp"
#include "gradsync/comm/nccl_memory.hpp"
#include "gradsync/comm/nccl_start.hpp"
#include "gradsync/comm/nccl_values.hpp"
#include "gradsync/comm/nccl_world.hpp"
#include "gradsync/comm/transport.hpp"
#include "gradsync/core/aligned_bytes.hpp"
#include "gradsync/core/deadline.hpp"
#include "gradsync/core/dtype.hpp"
#include "gradsync/core/error.hpp"
#include "gradsync/core/memory_space.hpp"
#include "gradsync/cuda/parts.hpp"

namespace gradsync {

/// Used by its rank's thread only. It may be moved while nothing refers to it.
class nccl_communicator {
 public:
  static constexpr bool peer_addressable = false;
  static constexpr memory_space space = memory_space::cuda;

  /// One process a GPU, as the launcher has numbered them; makes the local rank's device the current one. All ranks together; blocks, for
  /// a deadline at most. Throws `usage_error`, two ranks on one device among them, `timeout_error`, `transport_error`.
  explicit nccl_communicator(const launch& me, const nccl_options& options = {})
      : nccl_communicator((check(cudaSetDevice(cuda_device_of(me, device_count())), "cudaSetDevice"), detail::agree(me, options)), me.rank,
                          me.size, own_world(me.size, options)) {}

  /// On the current device, over a meeting of your own (comm/nccl_start.hpp).
  template <meeting Meeting>
  nccl_communicator(Meeting& meet, int rank, int size, const nccl_options& options = {})
      : nccl_communicator(detail::agree(meet, rank, current_device()), rank, size, own_world(size, options)) {}

  /// With an id that all ranks have got in a way of your own. NCCL itself refuses two ranks on one device.
  nccl_communicator(const ncclUniqueId& id, int rank, int size, const nccl_options& options = {})
      : nccl_communicator(id, rank, size, own_world(size, options)) {}

  nccl_communicator(const ncclUniqueId& id, int rank, int size, std::shared_ptr<detail::nccl_world> world)
      : nccl_communicator(detail::connect(id, rank, size, world->options), rank, world,
                          std::make_shared<detail::nccl_watchdog>(current_device(), rank, world->options, world->outcome)) {}

  nccl_communicator(nccl_communicator&&) = default;
  nccl_communicator& operator=(nccl_communicator&&) = default;

  int rank() const { return link_->rank(); }
  int size() const { return link_->world().size; }
  int device() const { return link_->device(); }
  place place_of(int rank) const { return link_->outcome().at(rank); }
  deadline limit() const { return deadline::after(options().deadline, options().clock); }
  const nccl_options& options() const { return link_->world().options; }

  /// Memory for buckets, made for NCCL and registered with it where that works; `describe` says. Blocks. With `nccl_registration::window`
  /// all ranks ask for the same together.
  aligned_bytes allocate(std::size_t bytes) {
    link_->refuse_capture("allocate()");
    link_->check();
    const uncaptured meanwhile;
    detail::nccl_slab slab = detail::make_slab(link_, bytes);
    if (bytes > 0) slabs_.push_back(slab.about);
    return {std::move(slab.data), bytes};
  }

  /// The stream that computes, where marks name none: at first the device's legacy default stream.
  cudaStream_t compute_stream() const { return link_->compute_stream(); }
  void compute_on(cudaStream_t stream) { link_->compute_on(stream); }

  /// A channel for up to `slots` collectives at a time.
  nccl_channel open(std::size_t slots) {
    link_->check();
    return {link_, size(), slots};
  }

  /// Ranks that give the same color become a communicator of their own, numbered by key, then by their rank here. All ranks call it;
  /// blocks.
  nccl_communicator split(int color, int key = 0) {
    return failing_all([&] {
      const auto at = [](int rank) { return static_cast<std::size_t>(2 * rank); };
      std::vector<int> chosen(at(size()));  // color and key of each rank, which adds its own to zeros
      chosen[at(rank())] = color, chosen[at(rank()) + 1] = key;
      values_->combine(std::span<int>(chosen), reduce_op::sum, {"split", chosen.size(), dtype::int32});
      std::vector<int> members, colors;
      for (int r = 0; r < size(); ++r) {
        colors.push_back(chosen[at(r)]);
        if (chosen[at(r)] == color) members.push_back(r);
      }
      std::stable_sort(members.begin(), members.end(), [&](int a, int b) { return chosen[at(a) + 1] < chosen[at(b) + 1]; });
      // NCCL's colors are not negative: the first rank of a color stands for it.
      const int first = static_cast<int>(std::find(colors.begin(), colors.end(), color) - colors.begin());
      const int mine = static_cast<int>(std::find(members.begin(), members.end(), rank()) - members.begin());
      ncclConfig_t config = detail::nccl_config(options());
      ncclComm_t made = nullptr;
      {
        const auto waiting = link_->blocking("ncclCommSplit");
        check(ncclCommSplit(link_->native(), first, mine, &made, &config), "ncclCommSplit");
      }
      return nccl_communicator(made, mine, part_of(members, color), link_->watchdog());
    });
  }

  /// A new communicator of the ranks that are not excluded, with a clean record. They call it together, the others don't; after a failure
  /// too, if `on_failure` is `revoke`. Needs NCCL 2.27, after a failure 2.28; throws `usage_error` where that is missing.
  nccl_communicator shrink(std::span<const int> excluded);

  bool failed() const { return link_->outcome().failed(); }
  /// Throws, if the group has failed, what the next call would throw.
  void check_group() const { link_->check(); }
  void fail(std::exception_ptr cause) { link_->fail(std::move(cause)); }
  void abandon(std::exception_ptr meanwhile) {
    link_->outcome().abandon(rank(), std::move(meanwhile));
    link_->watchdog()->nudge();
  }

  /// Combines host values over all ranks, in place; the same bits on every rank, in the canonical order. Blocks; throws as `finish()` does.
  template <element T>
  void all_reduce(std::span<T> values, reduce_op op = reduce_op::sum) {
    constexpr const char* names[] = {"all_reduce(sum)", "all_reduce(min)", "all_reduce(max)"};
    failing_all([&] { values_->combine(values, op, {names[static_cast<int>(op)], values.size(), dtype_of<T>()}); });
  }
  template <element T>
  T all_reduce(T value, reduce_op op = reduce_op::sum) {
    all_reduce(std::span<T>(&value, 1), op);
    return value;
  }

  /// Gives every rank the root's host values.
  template <element T>
  void broadcast(std::span<T> values, int root = 0) {
    expect_rank(root);
    failing_all([&] { values_->broadcast(std::as_writable_bytes(values), root, {"broadcast", values.size(), dtype_of<T>(), root}); });
  }
  template <element T>
  T broadcast(T value, int root = 0) {
    broadcast(std::span<T>(&value, 1), root);
    return value;
  }
  /// The same for device memory, after all that the device has been given so far.
  void broadcast(const buffer_view& values, int root) {
    expect_rank(root);
    failing_all([&] { values_->broadcast(values, root, {"broadcast on the device", values.count(), values.type, root}); });
  }

  /// Adds, in device memory, all ranks' elements of `all`: `part` becomes the sum of those at this rank's place, in an order of NCCL's own.
  /// `all` has size() times as many elements, in one piece; `part` lies elsewhere or at its own place there. Comes after all that the
  /// device has been given so far; blocks. `usage_error` if the two don't fit.
  void reduce_scatter(const buffer_view& part, const buffer_view& all) {
    const auto [from, to] = detail::expect_parts("reduce_scatter", all, part, size(), place_of(rank()));
    failing_all([&, &from = from, &to = to] { values_->reduce_scatter(to, from, all.type, {"reduce_scatter", all.count(), all.type}); });
  }
  /// `all` becomes every rank's `part`, by rank, in device memory. The rest as in reduce_scatter.
  void all_gather(const buffer_view& all, const buffer_view& part) {
    const auto [to, from] = detail::expect_parts("all_gather", all, part, size(), place_of(rank()));
    failing_all([&, &from = from, &to = to] { values_->all_gather(to, from, all.type, {"all_gather", all.count(), all.type}); });
  }

  /// Returns when every rank has called it.
  void barrier() {
    std::uint8_t none = 0;
    failing_all([&] { values_->combine(std::span<std::uint8_t>(&none, 1), reduce_op::max, {"barrier", 1, dtype::uint8}); });
  }

  /// Waits until the device is done with all that it has been given. `usage_error`, in the name of `what`, during a capture.
  void refuse_capture(const std::string& what) const { link_->refuse_capture(what), link_->synchronize_device(what); }

  /// Has what `stream` has been given so far, such as the launch of a graph, watched: it has the deadline to be done. Throws, if the group
  /// has failed, what any call would throw: launches alone don't tell.
  void watch(cudaStream_t stream, const std::string& what) { link_->check(), link_->watchdog()->watch(stream, {what, 0, nullptr}); }

  /// CUDA graphs that have captured steps over this communicator and are alive; CUDA tells of an end soon after it.
  int graphs_alive() const { return link_->graphs().alive(); }

  /// Ends it in order, while errors can still be thrown; the destructor only prints them. `usage_error` while a graph is alive.
  void close() { link_->close(); }

  /// "rank 0 of 4 on device 0, NCCL 2.28.9", and a line for each piece of memory.
  std::string describe() const {
    int version = 0;
    check(ncclGetVersion(&version), "ncclGetVersion");
    std::string text = "rank " + std::to_string(rank()) + " of " + std::to_string(size()) + " on device " + std::to_string(device()) +
                       ", NCCL " + std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
                       std::to_string(version % 100) + "\n";
    for (const nccl_slab_description& slab : slabs_) text += gradsync::describe(slab) + "\n";
    return text;
  }

 private:
  nccl_communicator(ncclComm_t comm, int rank, std::shared_ptr<detail::nccl_world> world, std::shared_ptr<detail::nccl_watchdog> dog)
      : link_(std::make_shared<detail::nccl_link>(comm, rank, std::move(world), std::move(dog))), end_{link_} {
    values_ = std::make_unique<detail::nccl_values>(link_, size());
  }

  static std::shared_ptr<detail::nccl_world> own_world(int size, const nccl_options& options) {
    return std::make_shared<detail::nccl_world>(size, options, std::make_shared<detail::failure>(size, options.clock));
  }

  // What the ranks of a part share; those of one process meet for it.
  std::shared_ptr<detail::nccl_world> part_of(const std::vector<int>& members, int color) {
    const detail::nccl_world& whole = link_->world();
    const int count = static_cast<int>(members.size());
    const auto outcome = [&] { return std::make_shared<detail::failure>(*whole.outcome, members); };
    if (whole.roll == nullptr) return std::make_shared<detail::nccl_world>(count, whole.options, outcome());
    return link_->world().parts.meet(meetings_++, color, count, [&] { return detail::shared_world(count, whole.options, outcome()); });
  }

  void expect_rank(int root) const {
    detail::expect_root(root, size(), place_of(rank()));
  }

  // What ranks do together: where it fails on one, all are told.
  template <class F>
  std::invoke_result_t<F&> failing_all(F&& f) {
    try {
      return locating([&] { return place_of(rank()); }, [&] { return detail::calling_nccl(f, [&] { link_->check(); }); });
    } catch (const usage_error& e) {
      if (typeid(e) == typeid(usage_error)) throw;  // our own come before anything is sent; those of NCCL and CUDA do not
      fail(std::current_exception());
      throw;
    } catch (...) {
      fail(std::current_exception());
      throw;
    }
  }

  std::shared_ptr<detail::nccl_link> link_;
  detail::end_of_link end_;
  std::unique_ptr<detail::nccl_values> values_;
  std::vector<nccl_slab_description> slabs_;
  std::size_t meetings_ = 0;
};

inline nccl_communicator nccl_communicator::shrink(std::span<const int> excluded) {
#if NCCL_VERSION_CODE >= 22700
  std::vector<int> list(excluded.begin(), excluded.end()), members;  // NCCL sorts the list where it lies
  for (int r = 0; r < size(); ++r)
    if (std::find(list.begin(), list.end(), r) == list.end()) members.push_back(r);
  const auto mine = std::find(members.begin(), members.end(), rank());
  if (mine == members.end()) throw usage_error("this rank is one of those to be excluded", place_of(rank()));
  if (failed()) link_->watchdog()->quiesce();
  const ncclComm_t from = link_->remains();
  if (from == nullptr)
    throw usage_error(
        "the communicator has been aborted; shrink() after a failure needs options.on_failure = nccl_ending::revoke and "
        "NCCL 2.28",
        place_of(rank()));
  ncclConfig_t config = detail::nccl_config(options());
  ncclComm_t made = nullptr;
  check(
      ncclCommShrink(from, list.data(), static_cast<int>(list.size()), &made, &config, failed() ? NCCL_SHRINK_ABORT : NCCL_SHRINK_DEFAULT),
      "ncclCommShrink");
  const int count = static_cast<int>(members.size()), number = static_cast<int>(mine - members.begin());
  const auto outcome = [&] { return std::make_shared<detail::failure>(count, options().clock); };
  auto world = link_->world().roll == nullptr
                   ? std::make_shared<detail::nccl_world>(count, options(), outcome())
                   : link_->world().parts.meet(meetings_++, 0, count, [&] { return detail::shared_world(count, options(), outcome()); });
  auto dog = std::make_shared<detail::nccl_watchdog>(device(), number, options(), world->outcome);
  return nccl_communicator(made, number, std::move(world), std::move(dog));
#else
  static_cast<void>(excluded);
  throw usage_error("shrink() needs NCCL 2.27 (ncclCommShrink)", place_of(rank()));
#endif
}

static_assert(transport<nccl_communicator>);

}  // namespace gradsync
